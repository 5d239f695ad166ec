# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds for guests: their inputs, and the modes of files in a guest."""

import contextlib
import fcntl
import os
import pathlib
import subprocess

import pytest

from lab.base import paths
from lab.build import builder, cache, debian, guest_build, image, rdma_core
from lab.guests import initramfs

STATUS = "Package: libibverbs-dev\nStatus: install ok installed\nVersion: {}\n\n"


@pytest.fixture
def base(tmp_path) -> pathlib.Path:
    """An image's directory, with the files that a build reads."""
    made = tmp_path / "image"
    dpkg = made / "builder" / "var" / "lib" / "dpkg"
    dpkg.mkdir(parents=True)
    (dpkg / "status").write_text(STATUS.format("56.1-1"))
    image.write_identity(made, b"packages of the disk")
    return made


def test_kernel_and_packages_of_the_image_are_inputs_of_the_build(base):
    before = guest_build._inputs(base, guest_build.COMMON)
    assert guest_build._inputs(base, guest_build.COMMON) == before
    image.write_identity(base, b"packages of the disk, with another kernel")
    other_disk = guest_build._inputs(base, guest_build.COMMON)
    (base / "builder" / debian.STATUS).write_text(STATUS.format("56.1-2"))
    image.write_identity(base, b"packages of the disk, with another kernel")
    assert len({before, other_disk, guest_build._inputs(base, guest_build.COMMON)}) == 3


def test_a_link_to_the_image_is_the_same_input(base, tmp_path):
    (tmp_path / "other cache").mkdir()
    link = tmp_path / "other cache" / base.name
    link.symlink_to(base)
    assert guest_build._inputs(link, guest_build.COMMON) == guest_build._inputs(base, guest_build.COMMON)


def test_a_result_is_up_to_date_for_its_inputs_alone(base, monkeypatch, tmp_path):
    monkeypatch.setattr(guest_build, "OUT", tmp_path / "results")
    tree = guest_build._new(base, "driver")
    (tree / "module").touch()
    assert not guest_build._up_to_date(base, "driver", "inputs")    # a build may have been interrupted
    guest_build._done(base, "driver", "inputs")
    assert guest_build._up_to_date(base, "driver", "inputs")
    assert not guest_build._up_to_date(base, "driver", "those of another kernel")
    assert not list(guest_build._new(base, "driver").iterdir())
    guest_build._done(base, "driver", "those of another kernel")
    assert not guest_build._up_to_date(base, "driver", "inputs")


def test_the_former_result_stays_until_the_new_one_is_complete(base, monkeypatch, tmp_path):
    """Another command may boot guests with the former one while a build runs, or after it has failed."""
    monkeypatch.setattr(guest_build, "OUT", tmp_path / "results")
    monkeypatch.setattr(paths, "ROOT", tmp_path / "checkout")
    source = paths.ROOT / guest_build.PROGRAMS / "program"
    source.parent.mkdir(parents=True)
    (paths.ROOT / guest_build.COMMON).mkdir()

    class Tools(builder.Builder):
        def sh(self, title, script, log):
            assert [path.read_text() for path in there()] == former
            if (self.work / guest_build.PROGRAMS / "program").read_text() == "wrong":
                raise guest_build.ui.LabError("does not compile")

    def there():
        return list((guest_build.OUT / base.name / "programs").rglob("program"))
    for text, former in (("1", []), ("2", ["1"]), ("wrong", ["2"])):
        source.write_text(text)
        source.chmod(0o755)
        with contextlib.suppress(guest_build.ui.LabError):
            guest_build.programs(base, Tools(base))
    assert [path.read_text() for path in there()] == ["2"]


def test_results_in_use_are_not_old(base, monkeypatch, tmp_path):
    """An installed lab has the results in its cache, where  pib clean --unused  counts days since their last use."""
    results = tmp_path / "guest-results"
    results.mkdir()
    (results / cache.BUILD_LOCK).touch()
    os.utime(results, (0, 0))
    monkeypatch.setattr(guest_build, "OUT", results)
    monkeypatch.setattr(guest_build, "PARTS", ())
    guest_build.build(base, None)
    assert results.stat().st_mtime > 0


def test_containers_with_common_results_build_one_after_the_other(base, monkeypatch, tmp_path):
    """Each container has an image of its own, and so a lock of its own in the image's build tree."""
    monkeypatch.setattr(guest_build, "OUT", tmp_path / "results")
    locked = []

    def programs(_base, _tools):
        with open(tmp_path / "results" / cache.BUILD_LOCK) as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        locked.append(True)
    monkeypatch.setattr(guest_build, "PARTS", ((guest_build.PROGRAMS, programs),))
    guest_build.build(base, None)
    assert locked


def test_a_missing_source_is_reported(base, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(guest_build.ui.LabError, match="rdma-core-56.1-1 is gone"):
        rdma_core.source(base / "builder")
    (paths.cache() / "rdma-core-56.1-1").mkdir(parents=True)
    assert rdma_core.source(base / "builder") == paths.cache() / "rdma-core-56.1-1"


def test_a_source_that_is_gone_comes_with_the_image_that_has_the_tree(base, monkeypatch, tmp_path):
    """An image with the user's own kernel links to the tree of another image; that one must be made again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    own = tmp_path / "guest-own"
    own.mkdir()
    (own / "builder").symlink_to(base / "builder")
    with pytest.raises(guest_build.ui.LabError, match=rf"pib clean {base.name} "):
        rdma_core.source(own / "builder")


def test_other_flags_configure_rdma_core_again(base, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = paths.cache() / "rdma-core-56.1-1"
    (source / "providers").mkdir(parents=True)
    (source / "CMakeLists.txt").write_text("add_subdirectory(providers/rxe)\n")
    ran = []
    monkeypatch.setattr(builder.Builder, "sh", lambda _self, _title, script, _log: ran.append(script))
    tools = builder.Builder(base)
    guest_build._configured(tools, "")
    guest_build._configured(tools, "")
    assert len(ran) == 1
    guest_build._configured(tools, "-DOTHER=1")
    assert len(ran) == 2 and "-DOTHER=1" in ran[1]


def test_options_of_the_trees_are_in_the_images_name(monkeypatch):
    before = image.directory()
    monkeypatch.setattr(image, "builder_options", lambda _name: ["--dpkgopt=other"])
    assert image.directory() != before


@pytest.fixture(name="archive")
def archive_with_headers(monkeypatch):
    """Stand-ins for the steps that make an image of kernel 6.12, from an archive with the headers of this kernel. They
    note the package lists that were fetched, and those that were used."""
    fetched, used, headers = [], [], ["6.12"]

    def fetch(made):
        fetched.append(debian.Archive(made / "apt", []))
        return fetched[-1]

    def make_disk(made, lists):
        used.append(lists)
        (made / "kernel-version").write_text("6.12")
        return b"packages of the disk"

    def make_tree(tree, _wanted, lists):
        used.append(lists)
        (tree / "usr" / "src" / f"linux-headers-{headers[0]}").mkdir(parents=True)
        (tree / debian.STATUS).parent.mkdir(parents=True)
        (tree / debian.STATUS).write_text(STATUS.format("56.1-1"))
    monkeypatch.setattr(image, "package_lists", fetch)
    monkeypatch.setattr(image, "_make_disk", make_disk)
    monkeypatch.setattr(image, "bootstrap_builder", make_tree)
    monkeypatch.setattr(rdma_core, "ensure", lambda _tree, lists: used.append(lists))
    return fetched, used, headers


def test_disk_build_tree_and_source_come_from_the_same_package_lists(archive, tmp_path):
    fetched, used, _ = archive
    image.make(tmp_path)
    assert len(fetched) == 1 and used == fetched * 3 and image.identity(tmp_path)


def test_an_archive_with_headers_of_another_kernel_is_reported(archive, tmp_path):
    """The archive is in this state for some hours after each update of the kernel."""
    archive[2][0] = "6.13"
    with pytest.raises(guest_build.ui.LabError, match="no headers of kernel 6.12, .* Wait some hours"):
        image.make(tmp_path)


def test_a_guests_files_are_readable_whatever_the_checkouts_modes(monkeypatch, tmp_path):
    monkeypatch.setattr(initramfs, "add_boot_files", lambda tree, *_: (tree / "init").touch(0o700))
    part = tmp_path / "part"
    (part / "etc").mkdir(parents=True)
    (part / "etc" / "file").touch(0o600)
    (part / "etc" / "program").touch(0o700)
    for directory in (part, part / "etc"):
        directory.chmod(0o700)
    (tmp_path / "key.pub").write_text("key")
    archive = initramfs.make(tmp_path, tmp_path / "initramfs", [part], tmp_path / "key.pub")
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(["cpio", "--extract", "--quiet", "-F", archive, "-D", out, "--no-preserve-owner"], check=True)
    modes = {name: (out / "overlay" / name).stat().st_mode & 0o777
             for name in (".", "etc", "etc/file", "etc/program", "usr/local", "root/.ssh", "root/.ssh/authorized_keys")}
    assert modes == {".": 0o755, "etc": 0o755, "etc/file": 0o644, "etc/program": 0o755, "usr/local": 0o755,
                     "root/.ssh": 0o700, "root/.ssh/authorized_keys": 0o600}
