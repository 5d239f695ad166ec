# SPDX-License-Identifier: GPL-2.0-or-later
"""Installing packages, with stand-ins for apt, dpkg and sudo."""

import os
import pathlib
import subprocess
import sys

import pytest

from lab.base import memory, paths, ui
from lab.build import debian, deps, preflight
from lab.fabric import up
from lab.fabric.wanted import Wanted

GERMAN_POLICY = """#!/bin/sh
if [ "$LC_ALL" = C ] && [ -z "$LANGUAGE" ]; then word=Candidate; else word=Installationskandidat; fi
echo "$2:"; echo "  $word: 2.0"
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Puts a script into PATH, before all others."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")

    def put(name: str, script: str) -> None:
        (directory / name).write_text(script)
        (directory / name).chmod(0o755)
    return put


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in deps.PROXIES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Replaces /etc/os-release."""
    file = tmp_path / "os-release"
    monkeypatch.setattr(debian, "OS_RELEASE", file)
    for known in (debian._os_release, deps.name_container):
        known.cache_clear()
    yield file
    for known in (debian._os_release, deps.name_container):
        known.cache_clear()


def test_a_package_list_is_parsed():
    text = "# comment\n\na          # why\nb >= 1:2.0  # why\n"
    assert deps.needs(text) == [deps.Need("a", ""), deps.Need("b", "1:2.0")]
    with pytest.raises(ui.LabError):
        deps.needs("a 1.0\n")


def test_the_labs_package_list_is_parsed():
    own = [{need.package for need in deps.needs(file.read_text())}
           for file in (deps.LIST, deps.TEST_LIST, deps.BROWSER_LIST, deps.DEBUGGER_LIST, deps.PACKAGING_LIST)]
    assert {"meson", "qemu-system-x86"} <= own[0] and "python3-pytest" in own[1] and "chromium" in own[2]
    assert own[3] == {"gdb"} and {"buildah", "libvirt-daemon-system", "python3-libvirt"} <= own[4]
    assert len(set.union(*own)) == sum(map(len, own))


def test_dependencies_of_a_package_come_from_its_suite():
    script = deps.install_script([deps.Selection("g++"), deps.Selection("qemu-system-x86", "bookworm-backports"),
                                  deps.Selection("meson", "bookworm-backports")])
    plain, backports = script.splitlines()
    assert plain.endswith("install -y --no-install-recommends g++")
    assert backports.endswith("--target-release=bookworm-backports qemu-system-x86 meson")


OLD_LISTS = """#!/bin/sh
echo "$LC_ALL ${{*##* -q }}" >>{calls}
case "$*" in
*update) touch {updated} ;;
*) [ ! -e {updated} ] || exit 0
   echo "E: {said}"
   exit 100 ;;
esac
"""


@pytest.mark.parametrize("said, calls", [
    ("Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?",
     ["C install a", "C update", "C install a"]),
    ("You don't have enough free space in /var/cache/apt/archives/.", ["C install a"])])
def test_package_lists_that_are_older_than_the_archive_are_updated(system, program, tmp_path, monkeypatch, said, calls):
    """The archive has only the newest version of a package."""
    system.write_text("VERSION_CODENAME=trixie\n")
    monkeypatch.setattr(paths, "RUN", tmp_path / ".lab")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(deps, "missing", lambda *_: [] if (tmp_path / "updated").exists() else [deps.Need("a", "")])
    monkeypatch.setattr(deps, "selection", lambda need, _own_suites: deps.Selection(need.package))
    program("apt-get", OLD_LISTS.format(calls=tmp_path / "calls", updated=tmp_path / "updated", said=said))
    if len(calls) == 1:
        with pytest.raises(ui.LabError, match="enough free space"):
            deps.install()
    else:
        deps.install()
    wanted = [call.replace("install", "install -y --no-install-recommends") for call in calls]
    assert (tmp_path / "calls").read_text().splitlines() == wanted


def test_a_package_that_is_too_old_counts_as_missing():
    need = deps.Need("x", "1:10.0")
    assert need.met_by("1:10.0.2+ds-2") and not need.met_by("1:7.2+dfsg-7") and not need.met_by("")


def test_apt_is_read_in_each_language_of_the_user(program, monkeypatch):
    monkeypatch.setenv("LANGUAGE", "de")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    program("apt-cache", GERMAN_POLICY)
    assert deps.selection(deps.Need("x", "1.5")) == deps.Selection("x")


MIXED = """#!/bin/sh
case $1 in
policy) echo "qemu:"; echo "  Candidate: 1:7.2" ;;
madison) echo "qemu | 1:11.0 | http://mirror/debian sid/main amd64 Packages"
         echo "qemu | 1:10.0 | http://mirror/debian {backports}/main amd64 Packages"
         echo "qemu | 1:7.2 | http://mirror/debian bookworm/main amd64 Packages" ;;
esac
"""


@pytest.mark.parametrize("backports, codename, chosen", [
    ("bookworm-backports", "bookworm-backports", deps.Selection("qemu", "bookworm-backports")),
    ("oldstable-backports", "bookworm-backports", deps.Selection("qemu", "oldstable-backports")),
    ("stable-backports", "trixie-backports", None), ("testing", "forky", None)])
def test_a_package_of_another_release_is_not_taken(system, program, backports, codename, chosen):
    system.write_text("VERSION_CODENAME=bookworm\n")
    program("apt-cache", MIXED.format(backports=backports))
    program("apt-get", f"#!/bin/sh\necho 'http://mirror/debian|{backports}|Debian Backports|{codename}'\n")
    assert deps.selection(deps.Need("qemu", "1:10.0")) == chosen


def test_apt_is_asked_once_for_its_suites(system, program, tmp_path):
    system.write_text("VERSION_CODENAME=bookworm\n")
    program("apt-cache", MIXED.format(backports="bookworm-backports"))
    program("apt-get", "#!/bin/sh\necho asked >>" + str(tmp_path / "calls")
            + "\necho 'http://mirror/debian|bookworm-backports|Debian Backports|bookworm-backports'\n")
    needs = [deps.Need("qemu", "1:10.0"), deps.Need("meson", "1:9")]
    assert deps._select(needs)[0] == [deps.Selection(need.package, "bookworm-backports") for need in needs]
    assert (tmp_path / "calls").read_text().split() == ["asked"]


def test_a_package_on_hold_is_installed(program):
    program("dpkg-query", "#!/bin/sh\necho 'hi |a|all|1.0'; echo 'hn |b|all|'; echo 'iF |c|all|1.0'\n")
    assert debian.installed() == {"a": "1.0"}


def test_a_package_of_another_architecture_counts_as_missing(program):
    """Programs for 32 bits bring libraries, maybe in versions of their own."""
    program("dpkg-query", "#!/bin/sh\ncat <<'END'\nii |dpkg|amd64|1.21\nii |a:amd64|amd64|2.0\nii |a:i386|i386|1.0\n"
            "ii |b:i386|i386|1.0\nii |c|all|1.0\nEND\n")
    assert debian.installed() == {"dpkg": "1.21", "a": "2.0", "c": "1.0"}


def test_one_query_finds_the_missing_packages(program, tmp_path, monkeypatch):
    listing, more, others = (tmp_path / f"{name}packages.txt" for name in ("", "test-", "browser-"))
    listing.write_text("a\nb >= 2\nc\nd\n")
    more.write_text("e\n")
    others.write_text("f\n")
    monkeypatch.setattr(deps, "LIST", listing)
    program("dpkg-query", f"#!/bin/sh\necho called >> {tmp_path}/calls\n"
            "echo 'ii |dpkg|amd64|1.21'; echo 'ii |a:amd64|amd64|1.0'; echo 'ii |b|all|1.0'; echo 'rc |c|all|1.0'\n")
    assert [need.package for need in deps.missing()] == ["b", "c", "d"]
    assert (tmp_path / "calls").read_text() == "called\n"
    assert [need.package for need in deps.missing(more)] == ["b", "c", "d", "e"]
    assert [need.package for need in deps.missing(more, others)] == ["b", "c", "d", "e", "f"]


LOCKED_TWICE = """#!/bin/sh
echo "$LC_ALL" >> {calls}
[ "$(wc -l < {calls})" -gt 2 ] && exit 0
echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 77 (apt-get)" >&2
exit 100
"""


def test_update_waits_for_the_lock_of_apts_lists(program, tmp_path):
    calls = tmp_path / "calls"
    program("apt-get", LOCKED_TWICE.format(calls=calls))
    program("sleep", "#!/bin/sh\n")
    done = subprocess.run(["sh", "-ec", deps.update_script()], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert calls.read_text() == "C\n" * 3
    assert done.stdout.count("another apt is at work") == 2


def test_update_fails_at_once_for_other_reasons(program):
    program("apt-get", "#!/bin/sh\necho 'E: no network' >&2; exit 100\n")
    program("sleep", "#!/bin/sh\nexit 1\n")
    done = subprocess.run(["sh", "-ec", deps.update_script()], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == "E: no network\n"


def test_the_sources_file_is_readable_with_each_umask(program, tmp_path, monkeypatch):
    file = tmp_path / "backports.sources"
    monkeypatch.setattr(deps, "BACKPORTS_FILE", str(file))
    program("apt-get", "#!/bin/sh\n")
    subprocess.run(["sh", "-ec", f"umask 077; {deps._backports_script()}"], check=True)
    assert file.stat().st_mode & 0o777 == 0o644
    assert file.read_text() == deps.backports_source()


def test_a_mirror_without_backports_does_not_break_apt(program, tmp_path, monkeypatch):
    """apt-get update fails as long as a file of sources names a suite that the mirror lacks."""
    file = tmp_path / "backports.sources"
    monkeypatch.setattr(deps, "BACKPORTS_FILE", str(file))
    program("apt-get", f"#!/bin/sh\ntest -e {file} && echo 'E: no Release file'; exit 100\n")
    done = subprocess.run(["sh", "-ec", deps._backports_script()], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == "E: no Release file\n" and not file.exists()


def test_no_sources_without_a_mirror_are_added(system, monkeypatch):
    """A machine that was installed from a disc has no mirror. A file with an empty URI would keep apt from reading the
    other files."""
    system.write_text("VERSION_CODENAME=bookworm\n")
    monkeypatch.setattr(debian, "suites", lambda: [debian.Suite("file:/srv/debian/", "bookworm", "Debian")])
    monkeypatch.setattr(deps, "missing", lambda *_: [deps.Need("meson", "1.5")])
    monkeypatch.setattr(deps, "selection", lambda _need, _own_suites: None)
    monkeypatch.setattr(deps, "as_root", lambda script, _title: deps.BACKPORTS_FILE in script and pytest.fail("added"))
    with pytest.raises(ui.LabError, match="no Debian mirror on a network.*sudo apt-get update"):
        deps.install()


def test_sudo_that_wants_a_password_is_not_called_missing(program, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    program("sudo", "#!/bin/sh\nexit 1\n")
    with pytest.raises(ui.LabError, match="sudo wants a password"):
        deps._root_argv("true", "this", interactive=False)
    assert deps._root_argv("true", "this", interactive=True)[1:] == ["sh", "-ec", "true"]
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ui.LabError, match="no sudo here"):
        deps._root_argv("true", "this", interactive=False)


@pytest.mark.parametrize("sudo, said", [
    ("echo 'user is not in the sudoers file.'; exit 1", "(?s)in the sudoers file.*run as root:\n\napt-get install a"),
    ('[ "$2" = true ] || { echo "E: no space"; exit 100; }', r"(?s)E: no space\n\(all of it in [^\n]*$")])
def test_a_user_who_may_not_use_sudo_is_told_what_to_run(program, tmp_path, monkeypatch, sudo, said):
    """sudo is tried, because a terminal is there for the password. The second sudo accepts it, but its command
    fails."""
    monkeypatch.setattr(paths, "RUN", tmp_path / ".lab")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    program("sudo", f"#!/bin/sh\n{sudo}\n")
    with open("/dev/null", encoding="utf-8") as terminal, pytest.raises(ui.LabError, match=said):
        monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(sys, "stdin", terminal)
        deps.as_root("apt-get install a\n", "installing")


def test_apt_under_sudo_has_the_users_proxy(program, monkeypatch):
    """sudo drops variables that it is not told to keep."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("http_proxy", "http://me:secret@proxy:3128")
    monkeypatch.setenv("no_proxy", "mirror.example")
    program("sudo", """#!/bin/sh
[ "$1" = -n ] && shift
case $1 in --preserve-env=*) kept=${1#*=}; shift ;; esac
for name in http_proxy no_proxy; do
    case ,$kept, in *,$name,*) ;; *) unset $name ;; esac
done
exec "$@"
""")
    argv = deps._root_argv('echo "$http_proxy $no_proxy"', "this", interactive=True)
    assert not any("secret" in word for word in argv)
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == (
        "http://me:secret@proxy:3128 mirror.example\n")


def test_a_sudo_that_keeps_no_variables_is_not_asked_to(program, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    program("sudo", "#!/bin/sh\nfor word; do case $word in --preserve-env=*) exit 1 ;; esac; done\n")
    assert deps._root_argv("true", "this", interactive=False)[1:] == ["sh", "-ec", "true"]


def test_a_closed_input_is_not_asked_for_a_password(monkeypatch, tmp_path, program):
    monkeypatch.setattr(paths, "RUN", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "stdin", None)
    program("sudo", f'#!/bin/sh\n[ "$1" = -n ] && shift\necho "$@" >>{tmp_path}/asked\nexec "$@"\n')
    deps.as_root("true", "this")
    assert (tmp_path / "asked").read_text() == "true\nsh -ec true\n"


def test_another_system_suffices_if_it_has_all_programs(system, monkeypatch):
    system.write_text('PRETTY_NAME="Debian GNU/Linux forky/sid"\nVERSION_CODENAME=forky\n')
    monkeypatch.setattr(preflight, "missing_programs", lambda: [])
    deps.install()
    monkeypatch.setattr(preflight, "missing_programs", lambda: ["meson (package meson)"])
    with pytest.raises(ui.LabError, match="(?s)forky/sid.*container.*meson"):
        deps.install()


def test_a_system_without_a_name_is_called_unknown(system, monkeypatch):
    monkeypatch.setattr(preflight, "missing_programs", lambda: ["meson (package meson)"])
    assert not system.exists()
    with pytest.raises(ui.LabError, match="without /etc/os-release"):
        deps.install()


def test_installation_of_packages_can_be_skipped(monkeypatch):
    monkeypatch.setenv(deps.VARIABLE, "skip")
    monkeypatch.setattr(deps, "missing", lambda _tests: pytest.fail("looked for packages"))
    deps.install()


def test_only_a_mirror_on_a_network_counts(monkeypatch):
    found = [debian.Suite("cdrom://[Debian 12]/", "bookworm", "Debian"),
             debian.Suite("http://mirror/debian", "bookworm", "Debian"),
             debian.Suite("mirror+file:/etc/apt/mirrors/security", "bookworm-security", "Debian-Security")]
    monkeypatch.setattr(debian, "suites", lambda: found)
    assert debian.mirror() == "http://mirror/debian"
    assert debian.mirror("Debian-Security") == "mirror+file:/etc/apt/mirrors/security"
    monkeypatch.setattr(debian, "suites", lambda: found[:1])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ui.LabError, match="sudo apt-get update"):
        debian.release_suites("bookworm")


@pytest.mark.parametrize("user, update, said", [
    (0, "touch {lists}", ""), (0, "true", "apt knows no Debian mirror"), (0, "echo no network; exit 100", "no network"),
    (1000, "touch {lists}", "sudo apt-get update")])
def test_removed_package_lists_are_read_anew_by_root(program, tmp_path, monkeypatch, user, update, said):
    """The container has no package lists. The script stands for apt, which prints a suite only after an update."""
    lists = tmp_path / "lists"
    program("apt-get", f"""#!/bin/sh
case "$*" in
*indextargets*) [ ! -e {lists} ] || echo "http://mirror/debian|trixie|Debian|trixie" ;;
*update) {update.format(lists=lists)} ;;
esac
""")
    monkeypatch.setattr(paths, "RUN", tmp_path / ".lab")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    if said:
        with pytest.raises(ui.LabError, match=said):
            debian.release_suites("trixie")
    else:
        assert debian.release_suites("trixie")[0] == debian.Suite("http://mirror/debian", "trixie", "Debian")


def test_the_output_of_a_missing_program_is_empty(monkeypatch):
    monkeypatch.setenv("PATH", str(pathlib.Path("/nowhere")))
    assert debian.output("apt-cache", "policy") == ""


def test_another_system_gets_the_hint_to_the_container(system, capsys, monkeypatch):
    system.write_text('PRETTY_NAME="Fedora Linux 42"\n')
    monkeypatch.setattr(preflight, "check", lambda *_: None)
    monkeypatch.setattr(preflight, "check_programs", lambda _guests: None)
    monkeypatch.setattr(deps, "install", lambda: None)
    up.machine()
    first = capsys.readouterr().err.splitlines()[0]
    assert "this is Fedora Linux 42, not Debian 12 or 13" in first and "podman run --rm -it pib-hca" in first
    assert (paths.ROOT / "packaging" / "Containerfile").is_file()


def test_the_hint_is_the_first_line_of_up(system, lab, capsys, monkeypatch):
    system.write_text('PRETTY_NAME="Fedora Linux 42"\n')

    def scarce(*_words):
        ui.say("memory may become scarce")

    def prepare(_driver, _packages):
        up.deps.name_container()
        raise ui.LabError("no programs")
    monkeypatch.setattr(memory, "check", scarce)
    monkeypatch.setattr(up, "prepare", prepare)
    with pytest.raises(ui.LabError, match="no programs"):
        up.boot(lab, Wanted(2))
    said = capsys.readouterr().err.splitlines()
    assert "not Debian 12 or 13" in said[0] and "scarce" in said[1] and len(said) == 2


def test_debian_gets_no_hint_to_the_container(system, capsys):
    system.write_text("VERSION_CODENAME=trixie\n")
    deps.name_container()
    assert capsys.readouterr().err == ""
