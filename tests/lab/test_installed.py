# SPDX-License-Identifier: GPL-2.0-or-later
"""An installed lab finds its programs by the note of `meson install` and keeps a state for each user."""

import argparse
import json
import os
import re
import socket
import subprocess
from types import SimpleNamespace

import pytest

from checkouts import pib
from lab import __main__ as command_line
from lab.base import paths
from lab.build import deps, kernel_module, preflight

NOTE = {"version": "1.2.3", "qemu": "10.0.2", "switch": "/usr/bin/pib-switch",
        "device": "/usr/lib/pib-hca/libpib-hca.so"}
DEVELOPMENT = ("test", "fuzz", "soak", "bench", "deps", "qemu-headers", "checkpatch")


@pytest.fixture
def installed(checkout, tmp_path):
    """Runs a command of an installed lab, as a user with an empty home directory."""
    (checkout / paths.NOTE.name).write_text(json.dumps(NOTE))
    home = tmp_path / "home"
    home.mkdir()
    env = {**{name: value for name, value in os.environ.items() if not name.startswith("XDG_")}, "HOME": str(home)}
    return lambda *words, **more: pib(checkout, *words, env=env | more)


def test_each_user_has_his_own_state(installed, checkout, tmp_path):
    assert installed("status").returncode == 1
    assert (tmp_path / "home" / ".local" / "state" / "pib-hca").is_dir() and not (checkout / ".lab").exists()
    installed("status", XDG_STATE_HOME=str(tmp_path / "state"))
    assert (tmp_path / "state" / "pib-hca").is_dir()


def test_messages_name_the_installed_command(installed, checkout):
    assert installed("status").stdout == "Nothing runs. Start it:  pib up\n"
    assert "Start it:  pib up\n" in installed("exec", "vm0", "--", "true").stderr
    assert pib(checkout.parent / "checkout", "--version", env=os.environ).stdout == "pib-hca 1.2.3, for QEMU 10.0.2\n"


def _parsers(parser):
    yield parser
    for action in parser._actions:
        for inner in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():
            yield from _parsers(inner)


@pytest.mark.parametrize("command", ["pib", "./pib"])
def test_the_help_names_the_command_as_it_is_installed(monkeypatch, command):
    monkeypatch.setattr(paths, "COMMAND", command)
    texts = [parser.format_help() for parser in _parsers(command_line.installed_parser())]
    assert len(texts) > 20 and any("./pib" in text for text in texts) == (command == "./pib")


def test_pib_why_names_the_installed_command(monkeypatch, capsys):
    monkeypatch.setattr(paths, "COMMAND", "pib")
    monkeypatch.setattr(command_line.source, "reached", lambda *_: SimpleNamespace(evidence=list))
    monkeypatch.setattr(command_line.why, "answer", lambda *_: "Start the guest anew:  ./pib reboot vm0")
    assert command_line._why(SimpleNamespace(control=["/control"], about="")) == 0
    assert capsys.readouterr().out == "Start the guest anew:  pib reboot vm0\n"


def test_an_installed_lab_lacks_commands_of_a_checkout(installed, checkout):
    said = installed("--help").stdout
    (checkout / paths.NOTE.name).unlink()
    own = pib(checkout, "--help").stdout
    for command in DEVELOPMENT:
        listed = re.compile(rf"^ +{command}\s", re.MULTILINE)
        assert listed.search(own) and not listed.search(said)


def test_an_installed_lab_needs_no_compiler(monkeypatch):
    monkeypatch.setattr(preflight.shutil, "which", lambda program: None if program in ("g++", "meson") else program)
    assert any("g++" in found for found in preflight.missing_programs())
    monkeypatch.setattr(paths, "INSTALLED", NOTE)
    assert preflight.missing_programs() == []


def test_no_folder_of_the_lab_is_installed_with_compiled_files():
    listed = re.search(r"foreach folder : \[(.*)\]\n  compiled", (paths.ROOT / "meson.build").read_text())[1]
    folders = {path.parent.name for path in (paths.ROOT / "lab").glob("*/__init__.py")}
    assert set(re.findall(r"'(\w+)'", listed)) == folders


def test_libraries_that_other_programs_load_are_of_the_programs_architecture():
    """A package that is Multi-Arch: foreign satisfies dependencies of each architecture; one that is the same can be
    installed for several."""
    text = (paths.ROOT / "debian" / "control").read_text()
    found = dict(re.findall(r"^Package: (\S+)\nArchitecture: amd64 arm64\n(?:Multi-Arch: (\w+))?", text, re.MULTILINE))
    assert found == {"qemu-pib-hca": "", "pib-switch": "foreign", "ibverbs-provider-pib": "same"}


def _depends() -> str:
    text = (paths.ROOT / "debian" / "control").read_text()
    return re.search(r"^Package: pib-lab\n.*?^Recommends:.*?$", text, re.MULTILINE | re.DOTALL)[0]


def test_the_package_depends_on_all_programs_for_guests():
    """The sections of packages.txt after the one for building have them. The package of the device depends on QEMU."""
    used = deps.LIST.read_text().split("# guest image and running guests")[1]
    lacking = [need.package for need in deps.needs(used) if not re.search(rf"\b{need.package}\b", _depends())]
    assert lacking == []
    assert re.search(r"^Depends:.*\$\{qemu:Depends\}", (paths.ROOT / "debian" / "control").read_text(), re.MULTILINE)


@pytest.mark.parametrize("package", ["pib-switch", "qemu-pib-hca"])
@pytest.mark.parametrize("version, fits", [("0.1.0", True), ("0.1.0~deb13", True), ("0.1.0+b1", True),
                                           ("0.1.1~deb13", False), ("0.2.0", False), ("0.0.9", False)])
def test_the_package_takes_device_and_switch_of_its_own_version(package, version, fits):
    """The lab has the sources of the driver, which refuses a device with another major version of the interface."""
    relations = re.findall(rf"\b{package} \((\S+) ([^)]+)\)", _depends())
    assert relations and all(
        not subprocess.run(["dpkg", "--compare-versions", version, relation,
                            limit.replace("${source:Upstream-Version}", "0.1.0")], check=False).returncode
        for relation, limit in relations) == fits


def test_the_switchs_service_is_hardened():
    """The threshold is in tenths; 2 of 10 is "OK"."""
    unit = paths.ROOT / "debian" / "pib-switch@.service"
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", unit],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Overall exposure level" in done.stdout, done.stdout + done.stderr


def _calls(group: str) -> set[str]:
    """The system calls of a group of systemd's, such as  @chown."""
    text = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", group], check=True, capture_output=True,
                          text=True).stdout
    words = [line.strip() for line in text.splitlines()[1:] if line.strip() and not line.strip().startswith("#")]
    return set().union(*(_calls(word) if word.startswith("@") else {word} for word in words))


def test_the_switchs_service_may_give_sockets_to_a_group():
    """--socket-group needs chown(2), which is in @privileged: on x86-64 chown, on Arm fchownat."""
    text = (paths.ROOT / "debian" / "pib-switch@.service").read_text()
    permitted: set[str] = set()
    for line in re.findall(r"^SystemCallFilter=(.*)$", text, re.MULTILINE):
        words = line.removeprefix("~").split()
        calls = set().union(*(_calls(word) if word.startswith("@") else {word} for word in words))
        permitted = permitted - calls if line.startswith("~") else permitted | calls
    assert {"chown", "fchownat", "accept4"} <= permitted and "chroot" not in permitted


def test_a_purge_removes_the_group_with_its_other_members_and_the_notes_of_the_hook(tmp_path):
    """Scripts stand for the programs that change the system. That for userdel does not remove the group."""
    called = tmp_path / "called"
    for name in ("rm", "userdel", "getent", "groupdel"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{called}\n')
        (tmp_path / name).chmod(0o755)
    subprocess.run(["/bin/sh", paths.ROOT / "debian" / "pib-switch.postrm", "purge"], check=True,
                   env={"PATH": str(tmp_path)})
    said = called.read_text()
    notes = re.search(r"^users=(\S+)$", (paths.ROOT / "packaging" / "libvirt" / "pib-switch").read_text(), re.MULTILINE)
    assert said.endswith("\ngroupdel pib-switch\n") and f" {notes[1]} " in said.splitlines()[0], said


def _maintainer_script(tmp_path, name, *arguments, failing=()):
    """Runs a script of a package with programs that only note their calls; returns the process and the notes."""
    called, systemd = tmp_path / "called", tmp_path / "systemd"
    called.write_text("")
    systemd.mkdir(exist_ok=True)
    for program in ("rm", "userdel", "getent", "groupdel", "systemctl", "deb-systemd-invoke", "udevadm"):
        (tmp_path / program).write_text(f'#!/bin/sh\necho {program} "$@" >>{called}\nexit {int(program in failing)}\n')
        (tmp_path / program).chmod(0o755)
    script = (paths.ROOT / "debian" / name).read_text().replace("/run/systemd/system", str(systemd)).replace(
        "/run/udev/control", str(tmp_path / "udevd"))
    done = subprocess.run(["/bin/sh", "-c", script, "sh", *arguments], capture_output=True, text=True, check=False,
                          env={"PATH": str(tmp_path)})
    return done, called.read_text().splitlines()


def test_an_upgrade_starts_switches_by_the_new_unit(tmp_path):
    done, called = _maintainer_script(tmp_path, "pib-switch.postinst", "configure", "0.0.9")
    assert done.returncode == 0, done.stderr
    assert called == ["systemctl --system daemon-reload", "deb-systemd-invoke try-restart pib-switch@*.service"]


def test_a_purge_removes_units_that_an_administrator_has_made(tmp_path):
    """An instance that is enabled, one that is masked, one that  systemctl edit --full  has copied, and drop-ins."""
    units = tmp_path / "units"
    (units / "multi-user.target.wants").mkdir(parents=True)
    (units / "pib-switch@a.service.d").mkdir()
    for name in ("multi-user.target.wants/pib-switch@a.service", "pib-switch@b.service"):
        (units / name).symlink_to("/dev/null")
    for name in ("pib-switch@c.service", "pib-switch@.service", "other.service"):
        (units / name).touch()
    script = (paths.ROOT / "debian" / "pib-switch.postrm").read_text().replace(
        "/etc/systemd/system.control", str(units)).replace("/etc/systemd/system", str(units))
    for place in ("/etc/pib-switch", "/run/pib-switch", "/var/lib/pib-switch"):
        script = script.replace(place, str(tmp_path / "none"))
    assert not re.search(r"\s/(?:etc|run|var)/", script)
    subprocess.run(["/bin/sh", "-c", f"getent() {{ return 2; }}\n{script}", "sh", "purge"], check=True)
    assert sorted(path.name for path in units.rglob("*")) == ["multi-user.target.wants", "other.service"]


def test_a_purge_ends_well_while_a_program_of_the_user_runs(tmp_path):
    done, called = _maintainer_script(tmp_path, "pib-switch.postrm", "purge", failing=("userdel", "groupdel"))
    assert done.returncode == 0 and "userdel pib-switch" in done.stderr and called[-1] == "groupdel pib-switch", called


def test_the_driver_loads_when_its_package_is_installed(tmp_path):
    """pib-hca(7) says so. udevd has seen the device before the installation."""
    assert _maintainer_script(tmp_path, "pib-hca-dkms.postinst", "configure")[1] == []
    with socket.socket(socket.AF_UNIX) as udevd:
        udevd.bind(str(tmp_path / "udevd"))
        done, called = _maintainer_script(tmp_path, "pib-hca-dkms.postinst", "configure", failing=("udevadm",))
    vendor, device = kernel_module.pci_id()
    assert done.returncode == 0 and called[0] == "udevadm control --reload"
    assert f"--attr-match=vendor={vendor} --attr-match=device={device}" in called[1], called


def test_dkms_leaves_kernels_alone_that_the_driver_is_not_for():
    script = (paths.ROOT / "debian" / "pib-hca-dkms.dkms").read_text().replace("[0]", "_0")
    said = subprocess.run(["sh", "-euc", f"kernel_source_dir=/src\n{script}\necho $BUILD_EXCLUSIVE_CONFIG"], check=True,
                          capture_output=True, text=True).stdout
    refused = re.findall(r"^#ifndef (CONFIG_\w+)\n#error", (paths.ROOT / "guest-driver" / "pib_hca.h").read_text(),
                         re.MULTILINE)
    assert refused and set(said.split()) == {*refused, "CONFIG_INFINIBAND", "CONFIG_INFINIBAND_USER_ACCESS"}


@pytest.mark.parametrize("kernel, built", [
    ("5.10.0-28-amd64", False), ("6.0.0-6-amd64", False), ("6.1.0-18-amd64", True), ("6.12.57+deb13-amd64", True),
    ("7.2.1+deb14-amd64", True), ("10.0.1-amd64", True)])
def test_dkms_builds_from_linux_6_1_on(kernel, built):
    """A kernel of the former release may still be there, or even run, when the guest has been upgraded to Debian 12."""
    script = (paths.ROOT / "debian" / "pib-hca-dkms.dkms").read_text()
    done = subprocess.run(["bash", "-c", f'kernel_source_dir=/src\n{script}\n[[ $1 =~ $BUILD_EXCLUSIVE_KERNEL && '
                           '$BUILD_EXCLUSIVE_KERNEL ]]', "bash", kernel], check=False)
    assert (done.returncode == 0) == built


def test_the_packages_have_the_version_of_the_source():
    version = re.search(r"version: '([^']+)'", (paths.ROOT / "meson.build").read_text())[1]
    assert (paths.ROOT / "debian" / "changelog").read_text().startswith(f"pib-hca ({version}) ")
