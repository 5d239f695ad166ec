# SPDX-License-Identifier: GPL-2.0-or-later
"""The container, built by buildah on a base that mmdebstrap has made, and a subnet in it without a network."""

import os
import pathlib
import re
import shutil
import subprocess

import package_trees
import pytest

from lab.base import paths
from lab.build import checkout, debian, image

BASE = "localhost/pib-base"
IMAGE = "localhost/pib-hca"
MOST_GIB = 1.5
# Isolation without cgroups, and without a network namespace for the build.
ISOLATION = ("--isolation", "chroot")
# A network of the loopback device alone.
ALONE = ("unshare", "--net", "sh", "-ec", 'ip link set lo up; exec "$@"', "sh")
# The capabilities that podman leaves to a container; buildah gives these or more. docker leaves more, among them mknod.
KEPT = ("chown", "dac_override", "fowner", "fsetid", "kill", "net_bind_service", "setfcap", "setgid", "setpcap",
        "setuid", "sys_chroot")
LIMITS = ("--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096")

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("buildah"),
                                reason="wants root, and the package buildah")


class Buildah:
    """Containers and images in a directory of the test. Warnings, as of the machine's networks for podman, would mix
    with the output."""

    def __init__(self, directory: pathlib.Path):
        self.options = ("--log-level", "error", "--root", directory / "root", "--runroot", directory / "run",
                        "--storage-driver", "vfs")

    def __call__(self, *words, before=(), check=True) -> str:
        """Output of buildah. before: a command that starts it."""
        done = subprocess.run([*before, "buildah", *self.options, *words], stdin=subprocess.DEVNULL, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0 or not check, f"buildah {words[0]}: {done.stdout[-8000:]}"
        return done.stdout


def _base(buildah: Buildah, work: pathlib.Path) -> None:
    lists = debian.Archive(work / "apt", debian.release_suites("trixie"), ("deb",))
    lists.update("container")
    tree = work / "base"
    image.bootstrap("making the container's base", ["ca-certificates"], tree, [], "trixie", lists, "container")
    for name in ("resolv.conf", "hosts"):
        shutil.copy(pathlib.Path("/etc") / name, tree / "etc")
    container = buildah("from", "scratch").strip()
    buildah("add", "--quiet", container, tree, "/")
    buildah("commit", "--quiet", "--rm", container, BASE)
    shutil.rmtree(tree)


def _bud(buildah: Buildah, context: pathlib.Path, *options: str) -> None:
    buildah("bud", *ISOLATION, *LIMITS, "--build-arg", f"BASE={BASE}", *options,
            "-f", context / "packaging" / "Containerfile", context)


@pytest.fixture(scope="module", name="buildah")
def _buildah(tmp_path_factory):
    """A buildah that has the base."""
    work = tmp_path_factory.mktemp("container")
    buildah = Buildah(work)
    try:
        _base(buildah, work)
        yield buildah
    finally:
        buildah("rm", "--all", check=False)
        shutil.rmtree(work)     # pytest keeps directories of three runs, and this one has some 10 GiB


@pytest.fixture(scope="module", name="container")
def _container(buildah, built_for_trixie, tmp_path_factory):
    """Buildah, and the name of a container of the image."""
    context = tmp_path_factory.mktemp("context")
    shutil.copytree(paths.ROOT / "packaging", context / "packaging")
    shutil.copytree(built_for_trixie.directory, context / "packages")
    _bud(buildah, context, "-t", IMAGE)
    name = buildah("from", IMAGE).strip()
    yield buildah, name
    buildah("run", *ISOLATION, name, "--", "pib", "down", check=False)      # a chroot has no processes of its own


@pytest.fixture(name="volume")
def _volume(tmp_path):
    """A directory for _run(). It is removed at the end, because some tests make an image in it."""
    yield tmp_path
    shutil.rmtree(tmp_path)


def _run(container, *words: str, volume: pathlib.Path | None = None, before: tuple[str, ...] = ALONE,
         added: tuple[str, ...] = ()) -> str:
    """Output of a command in the container. volume: /work there. before: as for Buildah. added: names of capabilities
    that podman does not leave to a container."""
    buildah, name = container
    mounted = ("--volume", f"{volume}:/work") if volume else ()
    given = [word for capability in added for word in ("--cap-add", f"CAP_{capability.upper()}")]
    limits = ",".join(["-all", *(f"+{capability}" for capability in (*KEPT, *added))])
    return buildah("run", *ISOLATION, *mounted, *given, name, "--", "setpriv", "--bounding-set", limits, "--", *words,
                   before=before)


def test_the_image_is_small(container):
    buildah, name = container
    tree = buildah("mount", name).strip()
    size = int(subprocess.run(["du", "-s", "--apparent-size", "--block-size=1", tree], check=True, capture_output=True,
                              text=True).stdout.split()[0])
    buildah("umount", name)
    assert size < MOST_GIB * 2**30


def test_another_command_works(container):
    assert "Switch" in _run(container, "container-entry", "topology", "star", "leaves=2")


def test_a_volume_brings_files_and_keeps_results(container, volume):
    (volume / "pib.toml").write_text("nodes = 99\n")
    said = _run(container, "sh", "-c", "container-entry topology star leaves=2 >own.topo; container-entry up || :",
                volume=volume)
    assert "pib.toml:1: nodes: 99: expected 1 to 32" in said and "Switch" in (volume / "own.topo").read_text()


def test_without_arguments_it_shows_the_table_without_a_network(container):
    said = _run(container, "container-entry")
    assert len(re.findall(r"^vm\d .*ACTIVE", said, re.MULTILINE | re.IGNORECASE)) >= 2, said
    assert "bandwidth: ib_write_bw" in said, said


def test_guests_in_the_container_can_be_used(container):
    said = _run(container, "sh", "-c", "container-entry up >/dev/null 2>&1; pib exec vm1 -- ibnetdiscover; pib down")
    assert "vm0" in said and "ended: " in said, said


def _after(file: pathlib.Path, line: str, new: str) -> None:
    text = file.read_text()
    assert text.count(line) == 1
    file.write_text(text.replace(line, line + new))


def test_drivers_and_providers_are_compiled_in_the_container_without_a_network(container, volume):
    """The cache is on the volume, where it has links to the container's image."""
    for name in ("hw-interface", "guest-driver", "guest-provider"):
        shutil.copytree(paths.ROOT / name, volume / name)
    _after(volume / "guest-driver" / "main.c", "pib_hca_module_init(void)\n{\n\tint ret;\n",
           '\tpr_info("my driver\\n");\n')
    _after(volume / "guest-provider" / "pib.c", "\tdev->page_size = sysconf(_SC_PAGESIZE);\n",
           '\t(void)!write(2, "my provider\\n", 12);\n')
    said = _run(container, "env", "XDG_CACHE_HOME=/work/.cache", "sh", "-ec",
                "container-entry up --driver guest-driver; pib exec vm0 -- dmesg; "
                "pib driver guest-driver vm1; pib provider guest-provider vm1; pib exec vm1 -- ibv_devinfo; pib down",
                volume=volume)
    assert said.count("my driver") >= 2 and "my provider" in said, said


def test_guests_get_more_packages_over_the_network(container, volume):
    """The disk of the guests is in a cache on the volume, as in the example for GitHub Actions."""
    said = _run(container, "env", "XDG_CACHE_HOME=/work/.cache", "container-entry", "ci", "--package", "fio", "--",
                "sh", "-c", '"$PIB" exec vm0 -- fio --version', volume=volume, before=())
    assert re.search(r"^fio-\d", (volume / "pib-ci" / "command.log").read_text(), re.MULTILINE), said
    assert list(volume.glob(".cache/pib-hca/packages-*/root.ext4"))


def test_an_image_whose_compilers_would_lack_devices_is_refused_at_once(container):
    """Buildah's isolation is a chroot, in which the kernel gives no user namespaces."""
    said = _run(container, "sh", "-c", "container-entry up --guest trixie-backports || :")
    assert "neither make device nodes nor mount them" in said and "--cap-add MKNOD" in said, said
    assert "reading the package lists" not in said, said


def test_another_image_is_made_in_a_container_that_makes_device_nodes(container, volume):
    """The image is on the volume, the driver in the container, to which the volume has a link."""
    said = _run(container, "env", "XDG_CACHE_HOME=/work/.cache", "PIB_GUEST=trixie-backports", "sh", "-ec",
                "container-entry guest-build; find -L /work/.cache/pib-hca/guest-results -name pib_hca.ko",
                volume=volume, before=(), added=("mknod",))
    assert re.search(r"^/work/\S+/guest-trixie-backports-\w+/driver/usr/lib/modules/\S+/updates/pib_hca\.ko$", said,
                     re.MULTILINE), said
    assert list(volume.glob(".cache/pib-hca/guest-trixie-backports-*/root.ext4")), said


def test_a_checkout_alone_becomes_packages(buildah, tmp_path):
    """The first stage of README's command, which finds no packages in a fresh clone."""
    for name in checkout.files():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(paths.ROOT / name, tmp_path / name)
    _bud(buildah, tmp_path, "--target", "packages", "-t", f"{IMAGE}-packages")
    name = buildah("from", f"{IMAGE}-packages").strip()
    said = buildah("run", *ISOLATION, name, "--", "ls", "/packages")
    assert [line.partition("_")[0] for line in said.split()] == sorted(package_trees.HOST), said
