# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest image, and the tree in which code for guests is compiled.

Both are of one Debian release and made together, so that kernel and kernel headers agree. They are kept in the cache
under a hash of their recipe:

    root.ext4       root disk; guests write to a throw-away overlay of it
    vmlinuz, kernel-version
    busybox         for the initramfs
    modules/        lib/modules of the image, for the initramfs and for depmod on the host
    builder/        compiler, kernel headers, libraries (see guest_build.py)
    identity        hash of all packages of both
    var/lib/dpkg/status     packages of the root disk

They contain neither the driver nor the provider, which reach a guest through the initramfs (initramfs.py). The
environment chooses the guests' release, so a test runner passes the choice on to its tests."""

import errno
import os
import pathlib
import shlex
import shutil

from lab.base import paths, ui
from lab.build import cache, debian, rdma_core, steps, user_namespace

VARIABLE = "PIB_GUEST"
# All tests run on the first release. The last one is the first release with the newest kernel that Debian has for it.
RELEASES = ("trixie", "bookworm", "trixie-backports")
KERNEL_PACKAGES = "linux-base linux-image-* linux-headers-* linux-kbuild-*"    # taken from the backports suite, if any
LOG = "guest-image"
BUILDER_LOG = "guest-builder"
FILES = pathlib.Path(__file__).parent
ROOT_SIZE = "4G"                # size of the sparse file root.ext4
NEW_GIB = 5.0                   # free space for making an image with its build tree
REVISION = "5"                  # part of the cache key: increase it when this module makes another image

# Directories of modules that no guest of this lab can use. They have most of the size of a kernel's modules.
UNUSED_MODULES = ("sound", "drivers/gpu", "drivers/media", "drivers/net/wireless", "drivers/net/ethernet",
                  "drivers/usb", "drivers/iio", "drivers/hwmon", "drivers/input", "drivers/staging", "drivers/mtd",
                  "drivers/ata", "drivers/comedi", "drivers/accel", "drivers/platform", "drivers/bluetooth",
                  "drivers/isdn", "drivers/net/can", "net/bluetooth", "net/mac80211", "net/can")
# Files that the image leaves out, because no guest of this lab can use them.
UNUSED = ("usr/share/man/*", "usr/share/locale/*", "usr/share/info/*",
          *(f"{top}lib/modules/*/kernel/{part}/*" for top in ("", "usr/") for part in UNUSED_MODULES))

# The lab has its own initramfs, and building Debian's would take longer than all other steps. update_initramfs=no
# prevents it in initramfs-tools; the excluded hook prevents it in the kernel's package.
NO_INITRAMFS = ['--setup-hook=mkdir -p "$1/etc/initramfs-tools" && '
                'echo update_initramfs=no > "$1/etc/initramfs-tools/update-initramfs.conf"',
                "--dpkgopt=force-confold", "--dpkgopt=path-exclude=/etc/kernel/postinst.d/initramfs-tools"]


def listed(file: pathlib.Path) -> list[str]:
    """The packages that a file lists: one in each line, and comments."""
    lines = file.read_text().splitlines()
    return [word for line in lines if (word := line.split("#", 1)[0].strip())]


def packages(name: str) -> list[str]:
    return listed(FILES / name)


def release() -> str:
    """The chosen release of the guests: one of RELEASES."""
    chosen = os.environ.get(VARIABLE, RELEASES[0])
    if chosen not in RELEASES:
        raise ui.LabError(f"{VARIABLE}={chosen}: expected one of {', '.join(RELEASES)}")
    return chosen


def debian_release() -> str:
    """The Debian release of the guests, without "-backports"."""
    return debian.base_release(release())


def choose(name: str) -> None:
    os.environ[VARIABLE] = name


def directory(name: str = "") -> pathlib.Path:
    """The image's directory in the cache. name: one of RELEASES; default: the chosen release."""
    name = name or release()
    recipe = paths.recipe_hash(REVISION, name, ROOT_SIZE,
                               "image", *packages("image-packages.txt"), *image_options(name),
                               "builder", *packages("builder-packages.txt"), *builder_options(name))
    return paths.cache() / f"guest-{name}-{recipe}"


def identity(image: pathlib.Path) -> str:
    """A hash of all packages of image and build tree. It changes if they are made again with other packages."""
    return (image / "identity").read_text()


def write_identity(image: pathlib.Path, *parts: str | bytes) -> None:
    (image / "identity").write_text(paths.recipe_hash(*parts, (image / "builder" / debian.STATUS).read_bytes()))


def kernel_version(image: pathlib.Path) -> str:
    return (image / "kernel-version").read_text().strip()


def package_lists(image: pathlib.Path) -> debian.Archive:
    """Fetches the package lists once for both trees, so that kernel and headers, library and source agree."""
    lists = debian.Archive(image / "apt", debian.release_suites(release()), ("deb", "deb-src"))
    lists.update(LOG)
    return lists


def bootstrap(title: str, wanted: list[str], tree: pathlib.Path, options: list[str], debian_release: str,
              lists: debian.Archive, log: str = LOG) -> None:
    """Makes one Debian tree from these package lists. apt in the tree gets keyrings that no package of Debian has."""
    own = [shlex.quote(file) for file in lists.keyrings if file != debian.KEYRING]
    argv = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory", "--skip=update",
            f"--setup-hook=cp {shlex.quote(str(lists.lists))}/*_* \"$1/var/lib/apt/lists/\"",
            '--aptopt=Apt::Install-Recommends "false"', "--aptopt=Acquire::Retries 3",
            *(f'--setup-hook=install -D -m 644 {file} "$1"{file}' for file in own),
            *(f"--aptopt={setting}" for setting in [*debian.proxies(), *debian.passwords()]),
            "--dpkgopt=force-unsafe-io", *options,
            f"--include={','.join(wanted)}", debian_release, tree,
            *lists.sources]
    ui.run(title, [*user_namespace.as_maker(), *argv], log)


def kernel_options(name: str) -> list[str]:
    """Options of mmdebstrap that give images of a backports suite its kernel."""
    return pin(KERNEL_PACKAGES, name)


def pin(packages_: str, name: str) -> list[str]:
    """Options of mmdebstrap by which these packages come from a backports suite; none for other suites."""
    if name == debian.base_release(name):
        return []
    rule = f"Package: {packages_}\\nPin: release n={name}\\nPin-Priority: 900\\n"
    return [f"--setup-hook=printf '{rule}' > \"$1/etc/apt/preferences.d/kernel\""]


def disk_options() -> list[str]:
    """Options of mmdebstrap for each root disk, with or without a kernel."""
    docs = "/usr/share/doc/rdma-core"
    keep_tests = ["--dpkgopt=path-exclude=/usr/share/doc/*", f"--dpkgopt=path-include={docs}",
                  f"--dpkgopt=path-include={docs}/tests", f"--dpkgopt=path-include={docs}/tests/*"]
    return [*keep_tests, *NO_INITRAMFS, *(f"--dpkgopt=path-exclude=/{path}" for path in UNUSED)]


def image_options(name: str) -> list[str]:
    # Modules are decompressed: an emulated processor needs far longer to decompress a module than to read it.
    plain_modules = ['--customize-hook=find "$1/usr/lib/modules" -name "*.ko.xz" -print0 '
                     '| xargs -0 -r -n 64 -P "$(nproc)" xz -d',
                     '--customize-hook=for v in "$1"/usr/lib/modules/*; do '
                     'chroot "$1" depmod "${v##*/}"; done']
    # Without initramfs-tools a kernel of backports would install dracut, which makes an initramfs.
    initramfs = ["--include=initramfs-tools"] if name != debian.base_release(name) else []
    return [*disk_options(), *kernel_options(name), *initramfs, *plain_modules]


def builder_options(name: str) -> list[str]:
    excluded = ("usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*", "usr/share/info/*")
    return [*kernel_options(name), *(f"--dpkgopt=path-exclude=/{path}" for path in excluded)]


def bootstrap_builder(tree: pathlib.Path, wanted: list[str], lists: debian.Archive) -> None:
    bootstrap("making the guest build tree", wanted, tree, builder_options(release()), debian_release(), lists,
              BUILDER_LOG)


def share_disk(base: pathlib.Path, image: pathlib.Path) -> None:
    """Gives an image the root disk and the busybox of another one: links, or copies if the other image is on another
    file system. A container with a cache on a volume has its image in its own file system."""
    for name in ("root.ext4", "busybox"):
        try:
            os.link(base / name, image / name)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            ui.run(f"copying {name}", ["cp", "--sparse=always", base / name, image / name], LOG)


def keep_status(tree: pathlib.Path, image: pathlib.Path) -> bytes:
    """Copies the status file of the disk's packages to the image's directory; returns its contents."""
    status = image / debian.STATUS
    status.parent.mkdir(parents=True)
    shutil.copyfile(tree / debian.STATUS, status)
    return status.read_bytes()


def make_root_disk(tree: pathlib.Path, disk: pathlib.Path, size: str = ROOT_SIZE) -> None:
    ui.run("making the guest image: root disk",
           [*user_namespace.as_owner(), "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal",
            "-E", "lazy_itable_init=1,nodiscard", "-L", "pib-guest", "-d", tree, disk, size],
           LOG)


def take_kernel(tree: pathlib.Path, image: pathlib.Path) -> None:
    kernel = next((tree / "boot").glob("vmlinuz-*"))
    (image / "kernel-version").write_text(kernel.name.removeprefix("vmlinuz-") + "\n")
    shutil.copy(kernel, image / "vmlinuz")
    shutil.copy(tree / "usr" / "bin" / "busybox", image / "busybox")
    (image / "modules" / "lib").mkdir(parents=True)
    (tree / "usr" / "lib" / "modules").rename(image / "modules" / "lib" / "modules")


def _make_disk(image: pathlib.Path, lists: debian.Archive) -> bytes:
    """Makes the root disk; returns the list of its packages."""
    tree = image / "rootfs"
    bootstrap("making the guest image: packages", packages("image-packages.txt"), tree,
              image_options(release()), debian_release(), lists)
    make_root_disk(tree, image / "root.ext4")
    take_kernel(tree, image)
    installed = keep_status(tree, image)
    user_namespace.remove(tree)
    return installed


def _make_builder(image: pathlib.Path, lists: debian.Archive) -> None:
    bootstrap_builder(image / "builder", packages("builder-packages.txt"), lists)
    rdma_core.ensure(image / "builder", lists)


def make(image: pathlib.Path) -> None:
    lists = package_lists(image)
    installed, _ = steps.together(lambda: _make_disk(image, lists), lambda: _make_builder(image, lists))
    headers = image / "builder" / "usr" / "src" / f"linux-headers-{kernel_version(image)}"
    if not headers.is_dir():
        raise ui.LabError(f"the archive has no headers of kernel {kernel_version(image)}, which is in the image. Wait "
                          "some hours, until its kernel packages are of one version, and run the same command again")
    write_identity(image, installed)
    user_namespace.remove(lists.directory)


def ensure() -> pathlib.Path:
    return cache.entry(directory().name, make)
