# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests with a kernel of the user's own: files that an image takes from a built tree, and trees that are refused."""

import errno
import os
import pathlib
import shutil

import pytest

from lab.base import paths, ui
from lab.build import debian, image, kernel_module, kernel_tree
from lab.guests import guest_kernel, own_kernel

VERSION = "7.0.1-mine"
CONFIG = "".join([*(f"CONFIG_{name}=y\n" for name in kernel_tree.BUILT_IN),
                  *(f"CONFIG_{name}=m\n" for name in kernel_tree.AVAILABLE)])
MODULES = ("drivers/infiniband/core/ib_core", "fs/ext4/ext4", "drivers/gpu/drm/big")
PROGRAM = pathlib.Path("/bin/true")     # any ELF file


@pytest.fixture(name="tree")
def built_tree(tmp_path) -> pathlib.Path:
    tree = tmp_path / "linux"
    for name in (kernel_tree.RELEASE, kernel_tree.BZIMAGE, *(f"{module}.ko" for module in MODULES)):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / kernel_tree.RELEASE).write_text(f"{VERSION}\n")
    (tree / kernel_tree.BZIMAGE).write_bytes(b"a kernel")
    (tree / kernel_tree.ORDER).write_text("".join(f"{module}.o\n" for module in MODULES))
    (tree / ".config").write_text(CONFIG)
    (tree / "Makefile").write_text("modules:\n\ttouch $(M)/modules.order\n")
    (tree / "Module.symvers").write_text("")
    (tree / "modules.builtin").write_text("kernel/drivers/virtio/virtio.ko\n")
    for module in MODULES:
        shutil.copy(PROGRAM, tree / f"{module}.ko")
    return tree


@pytest.fixture(name="base")
def debian_image(tmp_path, monkeypatch) -> pathlib.Path:
    """The image with Debian's kernel, in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(image.VARIABLE, "trixie")
    monkeypatch.setenv(guest_kernel.VARIABLE, "debian")
    base = image.directory()
    for tree in (base, base / "builder"):
        (tree / debian.STATUS).parent.mkdir(parents=True)
        (tree / debian.STATUS).write_text("Package: libc6\n")
    for name in ("root.ext4", "busybox", "vmlinuz"):
        (base / name).write_bytes(name.encode())
    image.write_identity(base, b"packages of the disk")
    return base


def test_a_machine_without_make_is_reported(tree, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ui.LabError, match="sudo apt-get install make"):
        kernel_tree.check(tree)


def test_an_image_has_kernel_and_modules_of_the_tree_and_the_rest_of_debians(tree, base):
    made = own_kernel.ensure(tree)
    assert image.kernel_version(made) == VERSION and (made / "vmlinuz").read_bytes() == b"a kernel"
    assert (made / "root.ext4").samefile(base / "root.ext4") and (made / "builder").samefile(base / "builder")
    modules = made / "modules" / "lib" / "modules" / VERSION
    assert sorted(path.name for path in modules.rglob("*.ko")) == ["ext4.ko", "ib_core.ko"]
    assert (modules / "modules.order").read_text().splitlines() == [f"kernel/{name}.ko" for name in MODULES[:2]]
    assert (modules / "modules.builtin").exists() and (modules / "modules.dep").exists()
    assert own_kernel.artefacts(made) == [made / "root"] and own_kernel.artefacts(base) == []
    assert (made / "root" / "usr" / "lib" / "modules" / VERSION).samefile(modules)


def test_an_image_on_another_file_system_has_a_copy_of_the_disk(tree, base, monkeypatch, tmp_path):
    """The image of a container is not on the volume that has the cache."""
    def link(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")
    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(paths, "RUN", tmp_path / ".lab")
    with open(base / "root.ext4", "ab") as disk:
        disk.truncate(1 << 24)
    made = own_kernel.ensure(tree)
    assert (made / "root.ext4").read_bytes() == (base / "root.ext4").read_bytes()
    assert (made / "root.ext4").stat().st_blocks <= (base / "root.ext4").stat().st_blocks + 8
    assert (made / "busybox").read_bytes() == b"busybox"


def test_a_tree_that_is_built_again_makes_another_image(tree, base):
    made = own_kernel.ensure(tree)
    assert own_kernel.ensure(tree) == made
    assert guest_kernel.is_current(made, image.identity(made)) and guest_kernel.is_current(base, image.identity(base))
    (tree / f"{MODULES[0]}.ko").write_bytes(PROGRAM.read_bytes() + b"\0")
    assert not guest_kernel.is_current(made, image.identity(made))
    assert own_kernel.ensure(tree) != made


def test_an_image_is_not_current_while_its_tree_is_being_built(tree, base):     # pylint: disable=unused-argument
    made = own_kernel.ensure(tree)
    (tree / f"{MODULES[0]}.ko").unlink()
    assert not guest_kernel.is_current(made, image.identity(made))


def test_the_environment_chooses_the_tree(tree, base, monkeypatch):
    guest_kernel.choose_tree(tree)
    assert guest_kernel.chosen() == str(tree)
    assert kernel_tree.of_image(guest_kernel.image()) == tree
    monkeypatch.setenv(guest_kernel.VARIABLE, "debian")
    assert kernel_tree.of_image(base) is None


@pytest.mark.parametrize("name", kernel_tree.NEEDED)
def test_a_tree_that_is_not_built_is_refused(tree, name):
    (tree / name).unlink()
    with pytest.raises(ui.LabError, match=f"has no {name}.*make .*bzImage modules"):
        kernel_tree.check(tree)


@pytest.mark.parametrize("config, message", [
    (CONFIG.replace("CONFIG_DEVTMPFS=y\n", ""), "lacks CONFIG_DEVTMPFS, .*--enable DEVTMPFS"),
    (CONFIG.replace("CONFIG_UNIX=y", "CONFIG_UNIX=m"), "lacks CONFIG_UNIX,"),
    (CONFIG.replace("CONFIG_EXT4_FS=m", "# CONFIG_EXT4_FS is not set"), "lacks CONFIG_EXT4_FS,"),
    (CONFIG + "CONFIG_MODULE_SIG_FORCE=y\n", "is not signed"),
])
def test_a_kernel_with_which_no_guest_works_is_refused(tree, config, message):
    (tree / ".config").write_text(config)
    with pytest.raises(ui.LabError, match=message):
        kernel_tree.check(tree)


def test_an_error_names_a_missing_module(tree):
    (tree / f"{MODULES[1]}.ko").unlink()
    with pytest.raises(ui.LabError, match=f"no {MODULES[1]}.ko"):
        kernel_tree.fingerprint(tree)


def test_too_many_modules_are_refused(tree, base, monkeypatch):
    monkeypatch.setattr(own_kernel, "MOST_MB", 0)
    with pytest.raises(ui.LabError, match="localmodconfig"):
        own_kernel.ensure(tree)
    assert base.exists() and not own_kernel.directory(base, tree).exists()


def test_modules_of_older_trees_are_listed_too(tree):
    (tree / kernel_tree.ORDER).write_text("kernel/fs/a.ko\nfs/b.ko\nfs/c.o\n")
    assert kernel_tree.modules(tree) == ["fs/a.ko", "fs/b.ko", "fs/c.ko"]


def test_the_driver_is_compiled_against_the_tree_by_this_machine(tree, base, tmp_path):
    made = own_kernel.ensure(tree)
    tools = kernel_tree.tools(made)
    source = tmp_path / "driver"
    source.mkdir()
    (source / "Kbuild").write_text("obj-m += x.o\n")
    compiled = kernel_module.compile_for(VERSION, tools, source)
    assert compiled.source == source and compiled.modules == []
    assert pathlib.Path(compiled.inside) == tools.work / f"drivers/{paths.recipe_hash(str(source))}/driver"
    (tree / kernel_tree.RELEASE).write_text("7.0.2-mine\n")
    with pytest.raises(ui.LabError, match="has Linux 7.0.2-mine now.*--kernel-dir"):
        kernel_module.compile_for(VERSION, tools, source)
    assert not isinstance(kernel_tree.tools(base), kernel_tree.HostBuilder)


@pytest.mark.parametrize("config, said", [("", "-O1 -g"), ("CONFIG_DEBUG_INFO=y\n", "-O1")])
def test_a_driver_has_lines_of_source_whatever_the_kernels_options(tree, base, tmp_path, monkeypatch, config, said):
    """Reports of a driver's faults name the lines."""
    (tree / ".config").write_text(CONFIG + config)
    (tree / "Makefile").write_text("modules:\n\techo \"$(KCFLAGS)\" >$(M)/given; touch $(M)/modules.order\n")
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver" / "Kbuild").write_text("obj-m += x.o\n")
    monkeypatch.setenv("KCFLAGS", "-O1")
    compiled = kernel_module.compile_for(VERSION, kernel_tree.tools(own_kernel.ensure(tree)), tmp_path / "driver")
    assert base and (pathlib.Path(compiled.inside) / "given").read_text().strip() == said
