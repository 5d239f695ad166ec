# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest boots a kernel tree of the user's own, with its modules, and the driver is compiled against it. The tree is
made of Debian's packages, laid out as a build leaves it."""
import pathlib
import re
import shutil
import subprocess

import pytest

import labs
from lab.base import paths
from lab.build import image, kernel_tree
from lab.develop import commands
from lab.guests import guest_kernel
from rdma import DEVICE, port_state, sh

pytestmark = [pytest.mark.nightly,
              pytest.mark.skipif(guest_kernel.chosen() != "debian", reason="the tree is made of Debian's kernel")]


def lay_out(base: pathlib.Path, tree: pathlib.Path) -> None:
    """Puts the headers and programs of Debian's packages, and the kernel and modules of the image, into `tree`."""
    version = image.kernel_version(base)
    headers = base / "builder" / "usr" / "src" / f"linux-headers-{version}"
    common = headers.with_name(re.sub(r"-(cloud-)?amd64$", "-common", headers.name))
    shutil.copytree(common, tree)
    shutil.copytree(headers, tree, dirs_exist_ok=True, ignore=shutil.ignore_patterns("Makefile", "scripts", "tools"))
    (tree / kernel_tree.RELEASE).write_text(f"{version}\n")
    (tree / kernel_tree.BZIMAGE).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(base / "vmlinuz", tree / kernel_tree.BZIMAGE)
    installed = base / "modules" / "lib" / "modules" / version
    shutil.copytree(installed / "kernel", tree, dirs_exist_ok=True)
    present = {str(path.relative_to(installed)) for path in (installed / "kernel").rglob("*.ko")}
    order = [line for line in (installed / kernel_tree.ORDER).read_text().split() if line in present]
    (tree / kernel_tree.ORDER).write_text("".join(f"{line.removeprefix('kernel/')}\n" for line in order))
    for name in ("modules.builtin", "modules.builtin.modinfo"):
        shutil.copy(installed / name, tree)


@pytest.fixture(scope="module", name="tree")
def built_tree(tmp_path_factory) -> pathlib.Path:
    tree = tmp_path_factory.mktemp("kernel") / "linux"
    lay_out(guest_kernel.image(), tree)
    wanted = re.search(r"^CONFIG_GCC_VERSION=(\d+)\d{4}$", (tree / ".config").read_text(), re.MULTILINE)[1]
    here = subprocess.run(["gcc", "-dumpversion"], check=True, capture_output=True, text=True).stdout.strip()
    if here.partition(".")[0] != wanted:
        pytest.skip(f"the kernel is compiled by gcc {wanted}, and this machine has gcc {here}")
    return tree


@pytest.fixture(scope="module", name="bench")
def guest_with_the_tree(tree):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(guest_kernel.VARIABLE, str(tree))
        with labs.booted("own-kernel", 1) as running:
            yield running


def test_a_guest_boots_the_kernel_of_a_tree_with_a_driver_for_it(bench, tree):
    node = bench.node("vm0")
    assert sh(node, "uname -r").strip() == kernel_tree.release(tree)
    assert port_state(node) == "4: ACTIVE"
    assert kernel_tree.of_image(commands.image_of(bench)) == tree
    # The guest has only modules of the tree, and the driver has the versions of the tree's symbols.
    found = sh(node, "modinfo -n ib_core pib_hca").split()
    assert [pathlib.Path(path).parent.name for path in found] == ["core", "updates"], found
    assert sh(node, f"ls /sys/class/infiniband/{DEVICE}/ports").split() == ["1"]


def test_a_driver_compiled_against_the_tree_replaces_the_running_one(bench):
    commands.exchange_driver(bench, paths.ROOT / "guest-driver", ["vm0"])
    assert port_state(bench.node("vm0")) == "4: ACTIVE"
