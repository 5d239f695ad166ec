# SPDX-License-Identifier: GPL-2.0-or-later
"""The packages on the host's side: built, checked, installed, used, upgraded and removed in clean trees."""

import re
import subprocess

import pytest

import clean_tree
import package_trees
from lab.arm.tree import ARCHITECTURES
from lab.base import paths
from lab.build import debian

# Programs that users of the host's packages do not need.
COMPILERS = "cc gcc g++ meson ninja"
TRY = """
for program in {compilers}; do if command -v $program; then exit 1; fi; done
cd /
pib --version
pib up
pib exec vm1 -- ibstat
pib map
pib down
"""
OTHER = "other"
# The second subnet comes and goes while the first one is up. $1 and $2: the users.
BESIDE = """
for user; do su - "$user" -c 'cd /; pib up'; done
su - "$2" -c 'pib exec vm1 -- ibstat; pib down'
echo the second subnet has ended
su - "$1" -c 'pib exec vm1 -- ibstat; pib exec vm0 -- ibhosts; pib down'
"""


def _field(file, name: str) -> str:
    return subprocess.run(["dpkg-deb", "-f", file, name], check=True, capture_output=True, text=True).stdout.strip()


def _listing(file) -> str:
    return subprocess.run(["dpkg-deb", "-c", file], check=True, capture_output=True, text=True).stdout


def test_lintian_finds_no_errors(built):
    assert not re.search(r"^E: ", built.said, re.MULTILINE), built.said
    assert len(list(built.directory.glob("*.deb"))) >= len(package_trees.ALL)


def test_each_program_has_a_manual_page(built):
    pages = {"pib-lab": "man1/pib.1", "pib-switch": "man8/pib-switch.8", "qemu-pib-hca": "man7/pib-hca.7"}
    for name, page in pages.items():
        assert f"/usr/share/man/{page}.gz" in _listing(built.files(name)[0])
    assert "/man5/pib-topology.5.gz" in _listing(built.files("pib-switch")[0])
    assert "/man1/pib-replay.1.gz" in _listing(built.files("qemu-pib-hca")[0])
    assert "/man1/pib-qemu.1.gz" in _listing(built.files("qemu-pib-hca")[0])


def test_device_and_provider_belong_to_one_version(built):
    device, provider = built.files("qemu-pib-hca", "ibverbs-provider-pib")
    assert re.search(r"qemu-system-x86 \(>= 1:10\.\d+\.\d+\), qemu-system-x86 \(<< 1:10\.\d+\.\d+~\)",
                     _field(device, "Depends"))
    rdma_core = {"bookworm": "44", "trixie": "56"}[built.release]
    assert f"libibverbs1 (>= {rdma_core}), libibverbs1 (<< {int(rdma_core) + 1}~)" in _field(provider, "Depends")


def test_packages_do_not_contain_paths_of_their_builder(built):
    """A builder with another home directory makes the same packages."""
    for file in built.files(*package_trees.ALL):
        content = subprocess.run(["dpkg-deb", "--fsys-tarfile", file], check=True, capture_output=True).stdout
        for place in (f"{package_trees.SHARED}/cache", clean_tree.SOURCE):
            assert f"{place}/".encode() not in content, (file.name, place)


def test_a_cross_build_for_arm_finds_its_build_dependencies(tmp_path):
    """Programs that run during the build come for this machine's processor, libraries for Arm."""
    archive = debian.Archive(tmp_path, debian.release_suites("trixie"), ("deb",), ARCHITECTURES)
    archive.update("packages")
    done = subprocess.run(["apt-get", "-s", "-q", "-aarm64", "-Pcross,nocheck", "build-dep", "./"], cwd=paths.ROOT,
                          env=archive.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^Inst libseccomp-dev:arm64 ", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^Inst qemu-system-x86 .*\[amd64\]", done.stdout, re.MULTILINE), done.stdout


@pytest.fixture(scope="module")
def host(built):
    """A tree without packages of ours, and the paths that look like them."""
    with package_trees.tree_of(built.release) as tree:
        install = f"apt-get -q install -y --no-install-recommends {package_trees.TARGET[built.release]}"
        done = tree.run("root", f"{package_trees.OURS} > /home/before")
        assert done.returncode == 0, done.stdout
        yield tree, install, built


def _files(built, *names: str) -> str:
    """Packages as words for apt in a tree."""
    return " ".join(f"/shared/{file.name}" for file in built.files(*names))


def _run(tree, user: str, script: str, built) -> str:
    done = tree.run(user, script, built.directory)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_a_user_brings_a_subnet_up_without_a_compiler(host):
    tree, install, built = host
    _run(tree, "root", f"{install} {_files(built, *package_trees.HOST)}", built)
    said = _run(tree, clean_tree.USER, TRY.format(compilers=COMPILERS), built)
    assert len(re.findall(r"^vm\d .*ACTIVE", said, re.MULTILINE | re.IGNORECASE)) >= 2, said
    assert "State: Active" in said and "ended: " in said and "for QEMU 10." in said, said


def test_two_users_have_a_subnet_each_at_the_same_time(host):
    tree, install, built = host
    _run(tree, "root", f"{install} {_files(built, *package_trees.HOST)}; useradd --create-home {OTHER}", built)
    said = _run(tree, "root", f"set -- {clean_tree.USER} {OTHER}\n{BESIDE}", built)
    assert len(re.findall(r"^vm\d .*ACTIVE", said, re.MULTILINE | re.IGNORECASE)) >= 4, said
    while_both, after = said.split("the second subnet has ended\n")
    assert "State: Active" in while_both and "State: Active" in after, said
    assert len(re.findall(r"^Ca\s*:", after, re.MULTILINE)) == 2, said


def test_upgrade_removal_and_purge_leave_nothing_behind(host):
    tree, install, built = host
    _run(tree, "root", f"{install} {_files(built, *package_trees.HOST, 'pib-hca-doc')}", built)
    newer = built.directory / "newer"
    newer.mkdir(exist_ok=True)
    files = [package_trees.newer(file, newer) for file in built.files(*package_trees.HOST, "pib-hca-doc")]
    names = " ".join(f"/shared/newer/{file.name}" for file in files)
    _run(tree, "root", f"{install} {names}", built)
    assert "+1" in _run(tree, "root", "dpkg-query -W pib-lab", built)
    _run(tree, "root", "echo OPTIONS= > /etc/pib-switch/lab.conf; getent passwd pib-switch; "
                       f"usermod --append --groups pib-switch {clean_tree.USER}", built)
    ours = "pib-lab pib-switch qemu-pib-hca pib-hca-doc"
    _run(tree, "root", f"apt-get -q remove -y {ours}; test -e /etc/pib-switch/lab.conf; ! command -v pib", built)
    # dpkg purges, because apt fails for a removed package that has left nothing behind.
    said = _run(tree, "root", f"dpkg --purge {ours}; "
                              "if getent passwd pib-switch || getent group pib-switch; then exit 1; fi; "
                              f"{package_trees.OURS} | diff /home/before - && echo nothing is left", built)
    assert "nothing is left" in said, said
