# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian on this machine: release, mirrors, versions, source packages.

The mirrors come from the machine's own apt configuration, so a lab behind a local mirror or proxy uses that, with the
keyring that checks it and the passwords that it wants."""

import dataclasses
import functools
import operator
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator

from lab.base import ui

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
DEBIANS = "/usr/share/keyrings/debian-archive-"     # start of the names of Debian's keyrings
OS_RELEASE = pathlib.Path("/etc/os-release")
ETC = pathlib.Path("/etc/apt")  # sources and passwords of this machine's apt
MAIN = "/etc/apt/apt.conf"      # settings of apt on this machine, as those in apt.conf.d
STATUS = "var/lib/dpkg/status"  # lists the packages installed in a tree
PROXY = re.compile(r"^(Acquire::https?::proxy\S* \".+\");$", re.IGNORECASE | re.MULTILINE)
# Schemes of archives from which a new tree can be made. It cannot be made from the archive of a DVD.
NETWORK = re.compile(r"(https?|mirror|tor)(\+\w+)?:")
# Debian's keys sign the archives with these labels.
LABELS = ("Debian", "Debian Backports", "Debian-Security")


@dataclasses.dataclass(frozen=True)
class Suite:
    """One suite of one archive, e.g. http://mirror/debian bookworm. name: as the machine's sources call it, such as
    stable."""
    uri: str
    name: str
    label: str
    codename: str = ""


def plain_environment() -> dict[str, str]:
    """An environment with English messages, for programs whose output is parsed."""
    return {**{name: value for name, value in os.environ.items() if name != "LANGUAGE"}, "LC_ALL": "C"}


def output(*argv: str, env: dict[str, str] | None = None) -> str:
    """Standard output of a command; "" if it fails or does not exist."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, env=env or plain_environment(),
                              stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout if done.returncode == 0 else ""


@functools.cache
def _os_release() -> dict[str, str]:
    text = OS_RELEASE.read_text() if OS_RELEASE.exists() else ""
    return {name: value.strip('"') for name, value in
            (line.split("=", 1) for line in text.splitlines() if "=" in line)}


def codename() -> str:
    return _os_release().get("VERSION_CODENAME", "")


def host_name() -> str:
    """The system's name and version, from os-release."""
    return _os_release().get("PRETTY_NAME", "a system without /etc/os-release")


def suites() -> list[Suite]:
    """The binary suites whose index this machine has."""
    text = output("apt-get", "indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(LABEL)|$(CODENAME)",
                  "Created-By: Packages")
    found = {Suite(*line.split("|")) for line in text.splitlines() if line.count("|") == 3}
    return sorted(found, key=lambda suite: (suite.uri, suite.name))


def sources() -> list[Suite]:
    """The suites of Debian's own archives, except discs, which have no source packages. Archives of others are left
    out, because other keys sign them, so apt would refuse them."""
    return [suite for suite in suites() if suite.label in LABELS and not suite.uri.startswith("cdrom:")]


def mirror(label: str = "Debian") -> str:
    """URI of this machine's archive for the label "Debian" or "Debian-Security"; "" if unknown. The archive of this
    machine's own release comes first, because others, such as that of old releases, may lack newer ones."""
    found = [suite for suite in suites() if suite.label == label and NETWORK.match(suite.uri)]
    return next((suite.uri for suite in sorted(found, key=lambda suite: not suite.codename.startswith(codename()))), "")


def proxies() -> list[str]:
    """Proxy settings of this machine's apt. mmdebstrap does not read them by itself."""
    return PROXY.findall(output("apt-config", "dump"))


def passwords() -> list[str]:
    """Settings by which apt reads this machine's passwords for archives also when it makes a new tree. In the finished
    tree they name apt's default places, which are empty there. apt ignores a folder that this user
    must not read."""
    file, parts = ETC / "auth.conf", ETC / "auth.conf.d"
    readable = parts.is_dir() and os.access(parts, os.R_OK)
    found = {"netrc": file.is_file(), "netrcparts": readable and any(parts.iterdir())}
    return [f'Dir::Etc::{name} "{place}"' for name, place in (("netrc", file), ("netrcparts", parts)) if found[name]]


def _one_line_sources(text: str) -> Iterator[tuple[str, str]]:
    """URIs in a file such as sources.list, and the keyrings that it names for them; "": none."""
    for options, uri in re.findall(r"^\s*deb(?:-src)?\s+(?:\[([^]]*)\]\s+)?(\S+)", text, re.MULTILINE):
        signed = re.search(r"\bsigned-by=(\S+)", options, re.IGNORECASE)
        yield uri, signed[1] if signed else ""


def _stanza_sources(text: str) -> Iterator[tuple[str, str]]:
    """The same for a file such as debian.sources. A value may go on in lines that begin with a blank."""
    for stanza in re.split(r"\n\s*\n", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)):
        lines = re.sub(r"\n[ \t]+", " ", stanza)
        fields = {name.lower(): value for name, value in re.findall(r"^([\w-]+):[ \t]*(.*)$", lines, re.MULTILINE)}
        if fields.get("enabled", "").strip().lower() in ("no", "false", "without", "off", "disable"):
            continue
        for uri in fields.get("uris", "").split():
            yield uri, fields.get("signed-by", "")


def keyring(uri: str) -> str:
    """The keyrings that this machine's sources name for an archive, separated by commas; Debian's if they name none. A
    company may sign its mirror, or its own suites there, with a key of its own. KEYRING stands for all of Debian's
    keyrings, because each release has it. Reads all files of sources."""
    files = [(ETC / "sources.list", _one_line_sources),
             *((file, _one_line_sources) for file in sorted(ETC.glob("sources.list.d/*.list"))),
             *((file, _stanza_sources) for file in sorted(ETC.glob("sources.list.d/*.sources")))]
    # apt, too, goes on without a file that this user must not read, for example because of a password in a URI.
    named = {keyring_ for file, read in files if file.is_file() and os.access(file, os.R_OK)
             for found, signed in read(file.read_text(errors="replace")) if found.rstrip("/") == uri.rstrip("/")
             for keyring_ in _keyrings(signed)}
    return ",".join(sorted(named)) or KEYRING


def _keyrings(signed: str) -> list[str]:
    """The files that a value of Signed-By names, without fingerprints. Debian's, if it has none or is a key itself."""
    words = [] if "-----BEGIN" in signed else signed.replace(",", " ").split()
    files = [word for word in words if word.startswith("/")]
    return [KEYRING if file.startswith(DEBIANS) else file for file in files] or [KEYRING]


def base_release(release: str) -> str:
    return release.removesuffix("-backports")


def _mirrors() -> tuple[str, str]:
    """URIs of the mirrors of "Debian" and of "Debian-Security"; "" for the latter if there is none. If the package
    lists are missing, as in a container, root updates them first."""
    if not mirror() and os.geteuid() == 0:
        ui.run("updating the package lists", ["apt-get", "-q", "-o", "Acquire::Retries=3", "update"], "deps")
    if main := mirror():
        return main, mirror("Debian-Security")
    raise ui.LabError("apt knows no Debian mirror on a network here. Name one in /etc/apt/sources.list.d if there is "
                      "none, and read its lists:  sudo apt-get update")


def release_suites(release: str) -> list[Suite]:
    """The suites of another release on this machine's mirrors; with "-backports" also that suite."""
    main, security = _mirrors()
    base = base_release(release)
    if base == "testing":           # needs no other suite: it contains its security updates
        return [Suite(main, base, "Debian")]
    wanted = [Suite(main, base, "Debian"), Suite(main, f"{base}-updates", "Debian")]
    if release != base:
        wanted.append(Suite(main, release, "Debian Backports"))
    if security:
        wanted.append(Suite(security, f"{base}-security", "Debian-Security"))
    return wanted


def installed() -> dict[str, str]:
    """Version of each installed package, without those of another architecture, such as libraries for 32-bit programs.
    The status of a package on hold begins with h, that of others with i."""
    text = output("dpkg-query", "-W", "-f", "${db:Status-Abbrev}|${binary:Package}|${Architecture}|${Version}\n")
    rows = [line.split("|") for line in text.splitlines() if line[1:2] == "i"]
    own = {"all", *(architecture for _, package, architecture, _ in rows if package == "dpkg")}
    return {package.split(":", 1)[0]: version for _, package, architecture, version in rows if architecture in own}


def package_version(tree: pathlib.Path, package: str) -> str:
    """Version of a package that is installed in a tree."""
    status = (tree / STATUS).read_text()
    entry = re.search(rf"^Package: {re.escape(package)}\n(?:.+\n)*?Version: (.+)$", status, re.MULTILINE)
    if not entry:
        raise ui.LabError(f"{tree} has no {package}. Remove {tree.parent}, and run the same command again")
    return entry.group(1)


def at_least(version: str, minimum: str) -> bool:
    return subprocess.run(["dpkg", "--compare-versions", version, "ge", minimum],
                          check=False).returncode == 0


def newest_first(versions: dict[str, str]) -> list[tuple[str, str]]:
    """(name, version) pairs, newest first, without names that have no version."""
    def order(one: tuple[str, str], other: tuple[str, str]) -> int:
        return 0 if one[1] == other[1] else -1 if at_least(one[1], other[1]) else 1
    return sorted(filter(operator.itemgetter(1), versions.items()), key=functools.cmp_to_key(order))


def _lagging(suites: list[Suite]) -> str:
    """apt setting that accepts an expired index of testing: it expires after a week, and some mirrors lag behind. apt
    still checks the index's signature."""
    return 'Acquire::Check-Valid-Until "false";\n' if any(suite.name == "testing" for suite in suites) else ""


def _architectures(names: tuple[str, ...]) -> str:
    words = " ".join(f'"{name}";' for name in names)
    return f"APT::Architectures {{ {words} }};\n" if names else ""


class Archive:
    """Packages of other suites. apt downloads them and checks signatures and hashes. apt uses lists in `directory`, so
    it needs no root, and the machine's own sources do not change."""

    def __init__(self, directory: pathlib.Path, from_suites: list[Suite], kinds: tuple[str, ...] = ("deb-src",),
                 architectures: tuple[str, ...] = ()):
        """architectures: those that the packages may have, this machine's first; empty: only this machine's."""
        self.directory = directory
        keyrings = {uri: keyring(uri) for uri in {suite.uri for suite in from_suites}}
        self.keyrings = sorted({file for files in keyrings.values() for file in files.split(",")})
        self.lists = directory / "lists"
        (self.lists / "partial").mkdir(parents=True, exist_ok=True)
        (directory / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
        self.sources = [f"{kind} [signed-by={keyrings[suite.uri]}] {suite.uri} {suite.name} main"
                        for suite in from_suites for kind in kinds]
        (directory / "sources.list").write_text("\n".join([*self.sources, ""]))
        config = directory / "apt.conf"
        config.write_text(f'Dir::Etc::main "{self._machines_settings()}";\n'
                          f'Dir::Etc::sourcelist "{directory}/sources.list";\n'
                          f'Dir::Etc::sourceparts "-";\n'
                          f'Dir::State::lists "{self.lists}";\n'
                          f'Dir::Cache "{directory}/cache";\n'
                          'Dir::State::status "/dev/null";\n'
                          f'{_lagging(from_suites)}'
                          f'{_architectures(architectures)}'
                          'Acquire::Languages "none";\n'
                          'APT::Sandbox::User "root";\n')
        self.env = {**plain_environment(), "APT_CONFIG": str(config)}

    def _machines_settings(self) -> pathlib.Path:
        """A file that includes the machine's apt.conf, and that apt reads in its place, after all other settings. The
        file clears APT::Default-Release, because apt fails if that option names none of these suites."""
        file = self.directory / "machine.conf"
        included = f'#include "{MAIN}";\n' if os.path.exists(MAIN) else ""
        file.write_text(f'{included}APT::Default-Release "";\n')
        return file

    def update(self, log: str) -> None:
        ui.run("reading the package lists", ["apt-get", "-o", "Acquire::Retries=3", "update"], log, env=self.env)

    def versions(self, package: str) -> list[str]:
        text = output("apt-cache", "showsrc", "--only-source", package, env=self.env)
        return [line.split(":", 1)[1].strip() for line in text.splitlines()
                if line.startswith("Version:")]

    def offered(self, *packages: str) -> list[str]:
        """Lines with the names and versions of binary packages that the archive has now, for a hash."""
        text = output("apt-cache", "show", *packages, env=self.env)
        return sorted(re.findall(r"^(?:Package|Version): .*", text, re.MULTILINE))

    def newest(self, package: str) -> str:
        """Newest version of a binary package; "" if there is none."""
        text = output("apt-cache", "show", "--all-versions", package, env=self.env)
        versions = re.findall(r"^Version: (\S+)$", text, re.MULTILINE)
        return functools.reduce(lambda one, other: one if at_least(one, other) else other, versions, "")

    def download(self, package: str, version: str, log: str, *, tarball_only: bool,
                 to: pathlib.Path | None = None) -> None:
        """Downloads the files of the source package. to: a directory; None: the archive's directory."""
        only = ["--tar-only"] if tarball_only else []
        ui.run(f"downloading the source of {package} {version}",
               ["apt-get", "source", "--download-only", *only, f"{package}={version}"],
               log, cwd=to or self.directory, env=self.env)
