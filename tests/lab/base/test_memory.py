# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory is checked before guests start."""

import pytest

from lab.base import memory, ui
from lab.fabric import up
from lab.fabric.wanted import Wanted
from lab.guests import nested, vm


@pytest.fixture(autouse=True)
def host(tmp_path, monkeypatch):
    """A host with 1000 MiB. The parent of its control group is limited to 900 MiB, of which 100 are in use."""
    (tmp_path / "meminfo").write_text(f"MemTotal: 9999999 kB\nMemAvailable: {1000 << 10} kB\n")
    (tmp_path / "cgroup").write_text("0::/outer/inner\n")
    inner = tmp_path / "groups" / "outer" / "inner"
    inner.mkdir(parents=True)
    for group, most in ((inner, "max"), (inner.parent, str(900 << 20))):
        (group / "memory.max").write_text(f"{most}\n")
        (group / "memory.current").write_text(f"{100 << 20}\n")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "CONTROL_GROUP", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "CONTROL_GROUPS", tmp_path / "groups")
    return inner.parent


def test_the_least_free_memory_of_host_and_control_groups_counts(host):
    assert memory.available_mib() == 800
    (host / "memory.max").write_text("max\n")
    assert memory.available_mib() == 1000


def test_cached_files_are_free_memory(host):
    """After an installation of packages, cached files fill the memory of a container."""
    (host / "memory.stat").write_text(f"anon {40 << 20}\nfile {60 << 20}\nshmem {10 << 20}\ninactive_anon 0\n"
                                      f"inactive_file {30 << 20}\nactive_file {20 << 20}\n")
    assert memory.available_mib() == 850


def test_a_group_of_the_memory_controllers_own_hierarchy_counts(host, tmp_path):
    """cgroups v1, in a container that sees its own group as the root. Without a limit the number is very large."""
    (tmp_path / "cgroup").write_text("12:pids:/\n4:memory:/docker/0123\n1:name=systemd:/a:b\n0::/\n")
    root = host.parent / "memory"
    root.mkdir()
    (root / "memory.limit_in_bytes").write_text(f"{700 << 20}\n")
    (root / "memory.usage_in_bytes").write_text(f"{200 << 20}\n")
    (root / "memory.stat").write_text(f"cache {90 << 20}\ninactive_file 4096\nactive_file 0\n"
                                      f"total_inactive_file {30 << 20}\ntotal_active_file {20 << 20}\n")
    assert memory.available_mib() == 550
    (root / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert memory.available_mib() == 1000


def test_guests_that_cannot_fit_are_refused_before_they_start():
    with pytest.raises(ui.LabError, match="32 guests: at least 801 MiB .* 800 MiB are free. Take fewer"):
        memory.check("32 guests", 801, 4000, "Take fewer")


def test_guests_that_may_not_fit_cause_a_warning(capsys):
    memory.check("2 guests", 800, 900, "Take fewer")
    assert "up to 900 MiB of memory may be used, 800 MiB are free" in capsys.readouterr().err
    memory.check("2 guests", 400, 800, "Take fewer")
    assert not capsys.readouterr().err


def test_up_looks_at_memory_before_anything_is_built(lab, monkeypatch):
    monkeypatch.setattr(up, "prepare", lambda *_: pytest.fail("built"))
    with pytest.raises(ui.LabError, match=f"3 guests: at least {3 * vm.LEAST_USED_MIB} MiB .* -n N --memory MIB"):
        up.boot(lab, Wanted(3))
    assert not lab.running()


def test_an_emulated_host_needs_memory(tmp_path):
    with pytest.raises(ui.LabError, match=f"emulated host: at least {nested.LEAST_MIB} MiB"):
        nested.run(tmp_path, ["true"])
