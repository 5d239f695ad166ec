# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest image, and the tree in which guest code is compiled.

Both are of one Debian release, made together so that kernel and kernel headers agree,
and kept in the cache under a hash of their recipe:

    root.ext4       root disk; guests only ever write to a throw-away overlay of it
    vmlinuz, kernel-version
    busybox         for the initramfs
    modules/        lib/modules of the image, for the initramfs and for depmod on the host
    builder/        compiler, kernel headers, libraries (see guest_build.py)

The driver and provider under development are in neither: they reach a guest
through the initramfs at boot (initramfs.py). Which release the guests are is in the
environment, so that a test runner hands it on to its tests.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

from lab import paths, ui
from lab.build import debian

VARIABLE = "PIB_GUEST"
RELEASES = ("trixie", "bookworm")   # the first is what all is tested on
LOG = "guest-image"
FILES = pathlib.Path(__file__).parent / "files"
ROOT_SIZE = "4G"                # sparse
REVISION = "3"                  # version of the code below

# Left out of the image: what no guest of this lab can use, which is most of the
# kernel's modules by size.
UNUSED = ("usr/share/man/*", "usr/share/locale/*", "usr/share/info/*",
          *(f"{top}lib/modules/*/kernel/{part}/*" for top in ("", "usr/") for part in (
              "sound", "drivers/gpu", "drivers/media", "drivers/net/wireless",
              "drivers/net/ethernet", "drivers/usb", "drivers/iio", "drivers/hwmon",
              "drivers/input", "drivers/staging", "drivers/mtd", "drivers/ata", "drivers/comedi",
              "drivers/accel", "drivers/platform", "drivers/bluetooth", "drivers/isdn",
              "drivers/net/can", "net/bluetooth", "net/mac80211", "net/can")))


def packages(name: str) -> list[str]:
    lines = (FILES / name).read_text().splitlines()
    return [word for line in lines if (word := line.split("#", 1)[0].strip())]


def release() -> str:
    """The Debian release of the guests."""
    chosen = os.environ.get(VARIABLE, RELEASES[0])
    if chosen not in RELEASES:
        raise ui.LabError(f"{VARIABLE}={chosen}: expected one of {', '.join(RELEASES)}")
    return chosen


def choose(name: str) -> None:
    os.environ[VARIABLE] = name


def directory() -> pathlib.Path:
    recipe = paths.recipe_hash(REVISION, release(), *UNUSED, ROOT_SIZE,
                               "image", *packages("image-packages.txt"),
                               "builder", *packages("builder-packages.txt"))
    return paths.cache() / f"guest-{release()}-{recipe}"


def kernel_version(image: pathlib.Path) -> str:
    return (image / "kernel-version").read_text().strip()


def as_owner() -> list[str]:
    """Prefix for commands that handle files of other owners: for anyone but root a user
    namespace with the sub-ids of the user, as mmdebstrap uses it."""
    return [] if os.geteuid() == 0 else ["unshare", "--map-auto", "--map-root-user", "--"]


def remove(tree: pathlib.Path) -> None:
    subprocess.run([*as_owner(), "rm", "-rf", "--one-file-system", tree], check=True)


def bootstrap(title: str, wanted: list[str], tree: pathlib.Path, options: list[str]) -> None:
    """Makes one Debian tree from this machine's mirrors."""
    sources = [f"deb [signed-by={debian.KEYRING}] {suite.uri} {suite.name} main"
               for suite in debian.release_suites(release())]
    root = os.geteuid() == 0
    made = tree if root else tree.with_suffix(".tar")
    ui.run(title, ["mmdebstrap", "--variant=minbase", f"--format={'directory' if root else 'tar'}",
                   '--aptopt=Apt::Install-Recommends "false"', "--aptopt=Acquire::Retries 3",
                   *options, f"--include={','.join(wanted)}", release(), made, *sources], LOG)
    if not root:
        tree.mkdir()
        ui.run(f"unpacking {tree.name}/", [*as_owner(), "tar", "-xpf", made, "-C", tree,
                                           "--numeric-owner", "--exclude=./dev/*"], LOG)
        made.unlink()


def bootstrap_image(tree: pathlib.Path) -> None:
    docs = "/usr/share/doc/rdma-core"
    keep_tests = ["--dpkgopt=path-exclude=/usr/share/doc/*", f"--dpkgopt=path-include={docs}",
                  f"--dpkgopt=path-include={docs}/tests", f"--dpkgopt=path-include={docs}/tests/*"]
    # The lab brings its own initramfs; building Debian's takes longer than all the rest.
    no_initramfs = ['--setup-hook=mkdir -p "$1/etc/initramfs-tools" && '
                    'echo update_initramfs=no > "$1/etc/initramfs-tools/update-initramfs.conf"',
                    "--dpkgopt=force-confold"]
    # Decompressing a module costs an emulated processor far more than reading it.
    plain_modules = ['--customize-hook=find "$1/usr/lib/modules" -name "*.ko.xz" -print0 '
                     '| xargs -0 -r -n 64 -P "$(nproc)" xz -d',
                     '--customize-hook=for v in "$1"/usr/lib/modules/*; do '
                     'chroot "$1" depmod "${v##*/}"; done']
    bootstrap("making the guest image: packages", packages("image-packages.txt"), tree,
              [*keep_tests, *no_initramfs, *(f"--dpkgopt=path-exclude=/{path}" for path in UNUSED),
               *plain_modules])


def bootstrap_builder(tree: pathlib.Path, wanted: list[str]) -> None:
    excluded = ("usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*", "usr/share/info/*")
    bootstrap("making the guest build tree: packages", wanted, tree,
              [f"--dpkgopt=path-exclude=/{path}" for path in excluded])


def make_root_disk(tree: pathlib.Path, disk: pathlib.Path) -> None:
    ui.run("making the guest image: root disk",
           [*as_owner(), "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal",
            "-E", "lazy_itable_init=1,nodiscard", "-L", "pib-guest", "-d", tree, disk, ROOT_SIZE],
           LOG)


def take_kernel(tree: pathlib.Path, image: pathlib.Path) -> None:
    kernel = next((tree / "boot").glob("vmlinuz-*"))
    (image / "kernel-version").write_text(kernel.name.removeprefix("vmlinuz-") + "\n")
    shutil.copy(kernel, image / "vmlinuz")
    shutil.copy(tree / "usr" / "bin" / "busybox", image / "busybox")
    (image / "modules" / "lib").mkdir(parents=True)
    (tree / "usr" / "lib" / "modules").rename(image / "modules" / "lib" / "modules")


def make(image: pathlib.Path) -> None:
    tree = image / "rootfs"
    bootstrap_image(tree)
    make_root_disk(tree, image / "root.ext4")
    take_kernel(tree, image)
    remove(tree)
    bootstrap_builder(image / "builder", packages("builder-packages.txt"))
    headers = image / "builder" / "usr" / "src" / f"linux-headers-{kernel_version(image)}"
    if not headers.is_dir():
        raise ui.LabError(f"kernel {kernel_version(image)} of the image has no headers in the "
                          "build tree: the archive changed in between. Run the same command again.")


def ensure() -> pathlib.Path:
    final = directory()
    if final.is_dir():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    image = pathlib.Path(tempfile.mkdtemp(dir=final.parent, prefix="guest."))
    image.chmod(0o755)              # the build tree is entered as root of a user namespace
    try:
        make(image)
        if not final.is_dir():      # else: somebody else was quicker, with the same result
            image.rename(final)
    finally:
        remove(image)
    return final
