# SPDX-License-Identifier: GPL-2.0-or-later
"""Installs the packages of packages.txt that the machine lacks."""

import dataclasses
import functools
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable

from lab.base import paths, ui
from lab.build import debian, preflight

LIST = pathlib.Path(__file__).with_name("packages.txt")
TEST_LIST = LIST.with_name("test-packages.txt")
BROWSER_LIST = LIST.with_name("browser-packages.txt")
DEBUGGER_LIST = LIST.with_name("debugger-packages.txt")
PACKAGING_LIST = LIST.with_name("packaging-packages.txt")
FUZZER_LIST = LIST.with_name("fuzzer-packages.txt")
BACKPORTS_FILE = "/etc/apt/sources.list.d/pib-hca-backports.sources"
RELEASES = ("bookworm", "trixie")
# apt says this if the mirror has no package of a version that the lists name, or cannot be reached.
NOT_FETCHED = "Unable to fetch some archives"
# apt finds a proxy by these variables, and sudo drops them.
PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy")
VARIABLE = "PIB_DEPS"           # "skip": install nothing; the user has installed everything


@dataclasses.dataclass(frozen=True)
class Need:
    package: str
    minimum: str

    def met_by(self, version: str) -> bool:
        return bool(version) and (not self.minimum or debian.at_least(version, self.minimum))


def needs(text: str) -> list[Need]:
    """Reads packages.txt: "package [>= version]  # comment"."""
    found = []
    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) not in (1, 3) or len(words) == 3 and words[1] != ">=":
            raise ui.LabError(f"{LIST.name}: not understood: {line}. Write:  PACKAGE [>= VERSION]  # COMMENT")
        found.append(Need(words[0], words[2] if len(words) == 3 else ""))
    return found


def missing(*more: pathlib.Path) -> list[Need]:
    """The missing packages of packages.txt and of the files `more`."""
    wanted = [need for file in (LIST, *more) for need in needs(file.read_text())]
    installed = debian.installed()
    return [need for need in wanted if not need.met_by(installed.get(need.package, ""))]


def candidates(package: str) -> list[tuple[str, str]]:
    """(version, suite) pairs that apt could install, unordered."""
    found = []
    for line in debian.output("apt-cache", "madison", package).splitlines():
        columns = [column.strip() for column in line.split("|")]
        if len(columns) == 3 and columns[2].endswith("Packages"):
            suite = columns[2].split()[1].split("/")[0]
            found.append((columns[1], suite))
    return found


@dataclasses.dataclass(frozen=True)
class Selection:
    """A package, and the suite that apt must take it from; "": apt's default."""
    package: str
    suite: str = ""


def _own_suites() -> set[str]:
    """Names of the suites of this machine's release. Its sources may call one stable-backports. With a package of
    testing, which some machines have as well, apt would take the C library from there."""
    own = debian.codename()
    return {known.name for known in debian.suites() if known.name.startswith(own) or known.codename.startswith(own)}


def selection(need: Need, own_suites: Callable[[], set[str]] = _own_suites) -> Selection | None:
    """The suite from which apt can install a version that is new enough; None: no configured suite of this release has
    one. own_suites: is called only if apt's default is too old, because it asks apt."""
    default = debian.output("apt-cache", "policy", need.package)
    candidate = next((line.split(":", 1)[1].strip() for line in default.splitlines()
                      if line.strip().startswith("Candidate:")), "")
    if candidate != "(none)" and need.met_by(candidate):
        return Selection(need.package)
    return next((Selection(need.package, suite) for version, suite in candidates(need.package)
                 if need.met_by(version) and suite in own_suites()), None)


def backports_source() -> str:
    """An apt sources file for the backports of this release, on this machine's own mirror."""
    return ("Types: deb\n"
            f"URIs: {debian.mirror()}\n"
            f"Suites: {debian.codename()}-backports\n"
            "Components: main\n"
            f"Signed-By: {debian.keyring(debian.mirror())}\n")


def _permits(sudo: str, words: list[str]) -> bool:
    """Whether sudo runs a command without asking for a password."""
    return not subprocess.run([sudo, "-n", *words], capture_output=True, check=False).returncode


def _root_argv(script: str, title: str, interactive: bool) -> list[str]:
    argv = ["sh", "-ec", script]
    if os.geteuid() == 0:
        return argv
    advice = f"Run as root:\n\n{script}\n"
    sudo = shutil.which("sudo")
    if not sudo:
        raise ui.LabError(f"{title} needs root, and there is no sudo here. {advice}")
    # sudo gets only the variables' names: each user may see a command's words, and an address may have a password.
    proxies = ",".join(name for name in PROXIES if os.environ.get(name))
    keep = [f"--preserve-env={proxies}"] if proxies else []
    needs_no_password = (keep or not interactive) and _permits(sudo, ["true"])
    if not interactive and not needs_no_password:
        raise ui.LabError(f"{title} needs root, and sudo wants a password, for which a terminal is needed. {advice}")
    if keep and needs_no_password and not _permits(sudo, [*keep, "true"]):
        keep = []       # the option needs the tag SETENV in sudoers
    return [sudo, *keep, *argv]


def as_root(script: str, title: str) -> None:
    """Runs a shell script as root, or tells the user how to."""
    interactive = sys.stdin is not None and sys.stdin.isatty()
    argv = _root_argv(script, title, interactive)
    try:
        ui.run(title, argv, "deps", stdin=sys.stdin if interactive else None)
    except ui.LabError as error:
        # After a password that sudo has accepted, it asks for none.
        if os.geteuid() == 0 or _permits(argv[0], ["true"]):
            raise
        raise ui.LabError(f"{error}\nIf sudo does not permit it, run as root:\n\n{script}") from error


def _apt(arguments: str) -> str:
    return ("LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "
            "-o Acquire::Retries=3 -o Dpkg::Use-Pty=0 -q " + arguments)


def update_script() -> str:
    """A script that updates the package lists. It retries while another process, such as an automatic update after
    boot, holds the lock of the lists: apt itself waits only for dpkg's lock."""
    return f"""export LC_ALL=C; unset LANGUAGE
tries=60
until said=$({_apt("update")} 2>&1); do
    echo "$said"
    case $said in *"Could not get lock"*) ;; *) exit 1 ;; esac
    tries=$((tries - 1))
    [ $tries -gt 0 ] || exit 1
    echo "another apt is at work: waiting for it"
    sleep 5
done
"""


def install_script(selections: list[Selection]) -> str:
    """A script with one apt-get for each suite. --target-release also covers dependencies, unlike "package/suite": QEMU
    of backports depends on the qemu-system-common of backports."""
    lines = []
    for suite in sorted({selected.suite for selected in selections}):
        target = f"--target-release={shlex.quote(suite)} " if suite else ""
        packages = shlex.join(selected.package for selected in selections if selected.suite == suite)
        lines.append(_apt(f"install -y --no-install-recommends {target}{packages}") + "\n")
    return "".join(lines)


def _backports_script() -> str:
    """A script that adds the backports to apt's sources. It removes their file again if apt cannot read the
    backports, because all later updates would fail."""
    return (f"trap 'rm -f {BACKPORTS_FILE}' EXIT; trap 'exit 1' HUP INT TERM\n"
            f"install -m 644 /dev/stdin {BACKPORTS_FILE} <<'EOF'\n{backports_source()}EOF\n"
            f"{update_script()}trap - EXIT\n")


def _add_backports() -> None:
    release = f"{debian.codename()}-backports"
    if not debian.mirror():
        raise ui.LabError(f"apt knows no Debian mirror on a network, which would have {release}. Name one in "
                          "/etc/apt/sources.list.d, and read its lists:  sudo apt-get update")
    as_root(_backports_script(), f"adding {release} ({BACKPORTS_FILE})")


def _select(lacking: list[Need]) -> tuple[list[Selection], list[Need]]:
    own_suites = functools.cache(_own_suites)
    chosen = [(need, selection(need, own_suites)) for need in lacking]
    return ([found for _, found in chosen if found], [need for need, found in chosen if not found])


def container() -> str:
    """Commands that build and run the container. A computer with another processor emulates that of the container."""
    platform = "" if os.uname().machine == preflight.GUESTS_PROCESSOR else "--platform linux/amd64 "
    return f"podman build {platform}-t pib-hca -f packaging/Containerfile . && podman run {platform}--rm -it pib-hca"


@functools.cache                # prints once
def name_container() -> None:
    """Recommends the container on systems other than Debian 12 and 13; not to an installed lab, which came in Debian
    packages."""
    if not paths.INSTALLED and debian.codename() not in RELEASES:
        ui.say(f"this is {debian.host_name()}, not Debian 12 or 13. The container runs here, too:  {container()}")


def _elsewhere() -> None:
    """On a system other than Debian 12 and 13, checks that all programs are there."""
    lacking = preflight.missing_programs()
    if lacking:
        raise ui.LabError(f"this is {debian.host_name()}; ./pib installs what it needs only on Debian 12 and 13. Use "
                          f"the container:\n  {container()}\nor install the programs that are missing: "
                          f"{', '.join(lacking)} ({LIST.name} names Debian's packages)")


def _install(lacking: list[Need], chosen: list[Selection]) -> None:
    """Installs the selected packages. Where the package lists are older than the archive, they name versions that it
    has no more: then they are updated."""
    title = f"installing {len(chosen)} packages"
    try:
        as_root(install_script(chosen), title)
    except ui.LabError as error:
        if NOT_FETCHED not in str(error):
            raise
        as_root(update_script(), "updating the package lists, which are older than the archive")
        as_root(install_script(_select(lacking)[0]), title)


def install(*more: pathlib.Path) -> None:
    """Installs the missing packages of packages.txt and of the files `more`. Prints nothing if none is missing."""
    if os.environ.get(VARIABLE) == "skip":
        return
    if debian.codename() not in RELEASES:
        _elsewhere()
        return
    lacking = missing(*more)
    if not lacking:
        return
    ui.say("missing packages: " + " ".join(need.package for need in lacking))
    chosen, unknown = _select(lacking)
    if unknown:
        as_root(update_script(), "updating the package lists")
        chosen, unknown = _select(lacking)
    if unknown and not any(f"{debian.codename()}-backports" in (s.name, s.codename) for s in debian.suites()):
        _add_backports()
        chosen, unknown = _select(lacking)
    if unknown:
        raise ui.LabError(f"no suite of {debian.codename()} that apt knows has: " + ", ".join(
            f"{need.package} {'>= ' + need.minimum if need.minimum else ''}".strip()
            for need in unknown) + ". Add a suite that has it to /etc/apt/sources.list.d")
    _install(lacking, chosen)
    still = missing(*more)
    if still:
        raise ui.LabError("still missing after the installation. Run as root:  apt-get install "
                          + " ".join(need.package for need in still))
