# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's kernels are selected, and compilations of the driver are judged."""

import pathlib
import re
import types

import pytest

from lab.base import ui
from lab.build import builder, debian, guest_build, kernel_module, kernels, rdma_core


def test_each_kernel_and_the_newest_of_each_flavour_are_selected():
    names = [f"linux-headers-{name}" for name in (
        "6.1.0-9-amd64", "6.1.0-47-amd64", "6.1.0-56-amd64", "6.1.0-56-cloud-amd64", "6.12-amd64",
        "6.12.94+deb13-amd64", "6.12.107+deb13-amd64", "6.12.117+deb13-amd64", "6.12.117+deb13-common",
        "7.3.4+deb13-rt-amd64", "amd64")]
    newest = ["linux-headers-6.1.0-56-cloud-amd64", "linux-headers-6.12.117+deb13-amd64"]
    assert kernels.header_packages(names, newest) == [f"linux-headers-{name}" for name in (
        "6.1.0-47-amd64", "6.1.0-56-amd64", "6.1.0-56-cloud-amd64", "6.1.0-9-amd64", "6.12.107+deb13-amd64",
        "6.12.117+deb13-amd64", "6.12.94+deb13-amd64")]


def test_a_warning_is_a_fault():
    output = ("  CC [M]  main.o\nmain.c:3:5: warning: unused variable 'x'\n  LD [M]  pib_hca.ko\n"
              "WARNING: modpost: missing MODULE_DESCRIPTION()\n")
    assert len(kernels.complaints(output)) == 2
    assert kernels.complaints("  CC [M]  main.o\n  BTF [M] pib_hca.ko\n") == []


def test_a_feature_that_is_compiled_out_is_a_fault():
    listing = "                 U ib_umem_odp_map_dma_and_lock\n                 U kfree\n"
    assert kernels.missing_symbols(listing) == ["ib_umem_dmabuf_get_pinned is compiled out"]


def test_a_feature_of_a_kernel_must_be_in_its_headers():
    assert kernels.missing_features("6.1.0-56-amd64", "gcc -DPIB_HCA_HAS_ODP -c") == []
    assert kernels.missing_features("6.12.117+deb13-amd64", "gcc -DPIB_HCA_HAS_ODP -DPIB_HCA_HAS_PLACEMENT -c") == [
        "DMA_DEV_NEED_SYNC is compiled out", "FILL_RES_SRQ is compiled out"]
    newest = kernels.missing_features("7.3.4+deb13-amd64", "gcc -DPIB_HCA_HAS_ODP_DMA_LIST -c")
    assert {"ODP is compiled out", "CREATE_USER_CQ is compiled out"} <= set(newest)


class Compiler:
    """A tree whose compiler writes the files of a driver without on-demand paging."""
    def __init__(self, directory: pathlib.Path):
        self.work, self.runs = directory, 0

    def bring(self, _source, name):
        (self.work / name).mkdir(parents=True)

    def sh(self, _title, script, _log):
        self.runs += 1
        driver = self.work / "kernels" / "6.1.0-56-amd64" / kernel_module.DRIVER
        assert f"-C {driver.relative_to(self.work)} W=1" in script
        (driver / "output").write_text("  CC [M]  main.o\n")
        (driver / "symbols").write_text("".join(f"U {name}\n" for name in kernels.WANTED_SYMBOLS))
        (driver / ".main.o.cmd").write_text("gcc -DPIB_HCA_HAS_ODP -c")


def test_an_earlier_compilation_is_judged_by_the_current_rules(monkeypatch, tmp_path):
    tools = Compiler(tmp_path)
    assert kernels.compile_driver(tools, "6.1.0-56-amd64") == []
    monkeypatch.setitem(kernels.OFFERED_SINCE, "PLACEMENT", (6, 1))
    assert kernels.compile_driver(tools, "6.1.0-56-amd64") == ["PLACEMENT is compiled out"]
    assert tools.runs == 1


@pytest.fixture(name="tools")
def tree_without_source(monkeypatch, tmp_path):
    """A tree with libraries of rdma-core 44; the mirror does not have their source."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    status = tmp_path / "tree" / "builder" / "var" / "lib" / "dpkg" / "status"
    status.parent.mkdir(parents=True)
    status.write_text("Package: libibverbs-dev\nVersion: 44.0-2+b1\n")

    def fail(*_arguments, **_options):
        raise ui.LabError("404  Not Found")
    monkeypatch.setattr(kernels, "_archive", lambda directory, _release: debian.Archive(directory, []))
    monkeypatch.setattr(debian.Archive, "download", fail)
    monkeypatch.setattr(builder.Builder, "__init__", lambda self, tree: setattr(self, "tree", tree / "builder"))
    return builder.Builder(tmp_path / "tree")


def test_a_source_missing_on_the_mirror_fails_the_provider_with_advice(tools, tmp_path):
    faults = kernels.compile_provider(tools, "bookworm")
    assert "404" in faults[0] and f"unpack the source of that release from elsewhere as {tmp_path}" in faults[-1]


@pytest.mark.parametrize("rules, faults", [
    ("  DEFINES = -DPIB_HAVE_ATOMIC_WRITE -DVERBS_DEBUG\n", []),
    ("  DEFINES = -DPIB_HAVE_ATOMIC_WRITE_ -DPIB_HAVE_FLUSH\n", ["ATOMIC_WRITE is compiled out"])])
def test_a_source_in_the_cache_is_used(tools, monkeypatch, tmp_path, rules, faults):
    """rdma-core 44 has no FLUSH."""
    (tmp_path / "pib-hca" / "rdma-core-44.0-2").mkdir(parents=True)

    def compile_in(found, options):
        build = rdma_core.source(found.tree) / f"build{options}"
        build.mkdir()
        (build / "build.ninja").write_text(rules)
        return build / "lib" / "libpib-rdmav34.so"
    monkeypatch.setattr(guest_build, "compile_provider", compile_in)
    assert kernels.compile_provider(tools, "bookworm") == faults


def test_an_operation_of_a_newer_rdma_core_must_be_in_its_headers():
    looked_for = re.search(r"foreach \(PIB_OPERATION (.*)\)", (rdma_core.PROVIDER / "CMakeLists.txt").read_text())[1]
    assert looked_for.split() == list(kernels.OPERATIONS_SINCE)
    assert kernels.missing_operations("56.1-1", "DEFINES = -DPIB_HAVE_ATOMIC_WRITE -DPIB_HAVE_FLUSH -Dx\n") == []
    assert kernels.missing_operations("61.0-1", "DEFINES = -DPIB_HAVE_ATOMIC_WRITE\n") == ["FLUSH is compiled out"]


def test_a_tree_is_made_without_the_source(tools, monkeypatch, tmp_path):
    monkeypatch.setattr(kernels.image, "bootstrap", lambda *_: None)
    kernels._make(tmp_path / "tree", "bookworm", [])
    assert not list(pathlib.Path(tmp_path).glob("pib-hca/rdma-core*")) and tools


def test_a_mirror_without_kernels_is_not_a_pass(monkeypatch):
    monkeypatch.setattr(kernels, "_archive", lambda *_: types.SimpleNamespace(env={}))
    monkeypatch.setattr(debian, "output", lambda *_, **__: "")
    with pytest.raises(ui.LabError, match="no linux-headers for testing"):
        kernels.tree("testing")


def test_the_kernel_of_a_metapackage_is_selected_whatever_its_name(monkeypatch):
    """A series begins with a kernel such as 7.4, whose packages may have no third number in their names."""
    said = {"pkgnames": "linux-headers-7.3.4+deb14-amd64\n",
            "show": "Package: linux-headers-amd64\nDepends: linux-headers-7.4-amd64 (= 7.4-1)\n"}
    archive = types.SimpleNamespace(env={}, offered=lambda *_: [])
    monkeypatch.setattr(kernels, "_archive", lambda *_: archive)
    monkeypatch.setattr(debian, "output", lambda *words, **_: said[words[1]])
    wanted, _ = kernels._wanted("testing")
    assert {"linux-headers-7.3.4+deb14-amd64", "linux-headers-7.4-amd64"} <= set(wanted)


def test_a_new_version_of_a_package_makes_a_new_tree(monkeypatch):
    entries = []
    monkeypatch.setattr(kernels.cache, "entry", lambda name, _make: entries.append(name))
    for version in ("56.1-1", "57.0-1"):
        monkeypatch.setattr(kernels, "_wanted", lambda _release, version=version: (["libibverbs-dev"], [version]))
        kernels.tree("testing")
    assert len(set(entries)) == 2


def test_the_newest_kernel_is_one_that_guests_boot():
    assert kernels.newest(["6.12.9+deb13-amd64", "6.12.57+deb13-amd64", "7.0.1+deb14-cloud-amd64"]) == (
        "6.12.57+deb13-amd64")
    assert kernels.newest(["7.3.4+deb14-amd64", "7.4-amd64", "7.4-rt-amd64", "6.1.0-56-amd64"]) == "7.4-amd64"
    assert kernels.newest(["7.4.1+deb14-amd64", "7.4+deb14-amd64"]) == "7.4.1+deb14-amd64"
    assert kernels.newest(["6.1.0-9-amd64", "6.1.0-56-amd64"]) == "6.1.0-56-amd64"
