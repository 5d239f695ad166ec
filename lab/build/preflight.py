# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks at the start of a command whether this machine can run it.

Each check returns a list with one line for each problem, which says what to do."""

import dataclasses
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile

from lab.base import paths, ui
from lab.base.memory import available_mib
from lab.build import qemu_headers, user_namespace

# Programs, and the Debian packages that contain them. An installed lab compiles nothing for the host.
COMPILING = {"g++": "g++", "meson": "meson", "ninja": "ninja-build", "pkg-config": "pkg-config", "flex": "flex",
             "bison": "bison"}
PROGRAMS = {"tar": "tar", "xz": "xz-utils", "qemu-system-x86_64": "qemu-system-x86",
            "qemu-img": "qemu-utils", "mmdebstrap": "mmdebstrap", "apt-get": "apt", "unshare": "util-linux",
            "setpriv": "util-linux", "mke2fs": "e2fsprogs", "depmod": "kmod", "cpio": "cpio", "ssh": "openssh-client",
            "ssh-keygen": "openssh-client"}
DEBIANS_QEMU = pathlib.Path("/usr/bin/qemu-system-x86_64")
FOR_USERS = {"newuidmap": "uidmap", "newgidmap": "uidmap"}
# Files with subordinate IDs for user namespaces, and the options of usermod that add such IDs.
SUBORDINATE = {pathlib.Path("/etc/subuid"): "--add-subuids", pathlib.Path("/etc/subgid"): "--add-subgids"}
FIRST_ID, IDS = 100000, 65536
# Kernel settings that deny user namespaces to users: the denying value, and a value that allows them.
FORBIDDING = {"kernel/unprivileged_userns_clone": ("0", "1"), "user/max_user_namespaces": ("0", "10000"),
              "kernel/apparmor_restrict_unprivileged_userns": ("1", "0")}
# Free space in GiB that commands need. host_build.SIZES_GIB has the sizes of build directories; the modules that make
# entries of the cache have the sizes of these entries.
CACHE_GIB = 0.5                 # the driver's build
CHECKOUT_GIB = 0.1              # logs
TEMPORARY_GIB = 0.1             # sockets
OVERLAYS_GIB = 0.5              # writes of guests to their disks
OVERLAYS = "/var/tmp"           # where QEMU keeps the guests' overlays, unless TMPDIR names another place
GUESTS_PROCESSOR = "x86_64"
OTHER_CACHE = "XDG_CACHE_HOME names another place"
REFUSED = re.compile(r"[\s:]")  # QEMU's configure refuses a path with these characters
# Script that gives a file in a directory another owner, as files of the guests' image have.
TRY_OWNER = 'file=$(mktemp "$1/.pib-XXXXXX"); trap \'rm -f "$file"\' EXIT; chown 1:1 "$file"'
BUILD_MIB = 1500                # memory of the largest compilation


@dataclasses.dataclass(frozen=True)
class Needed:
    """Free space in GiB that a command needs in addition to what each command needs. cache: for new entries; builds:
    for new build directories; run: in the run directory; temporary: in the directory for temporary files. compiles:
    whether a new tree is made in which compilers run. written: directories of the cache's entries in which builds
    write."""
    cache: float = 0
    builds: float = 0
    run: float = 0
    temporary: float = 0
    compiles: bool = False
    written: tuple[pathlib.Path, ...] = ()


def missing_programs(guests: bool = True) -> list[str]:
    """Missing programs, each with its package."""
    of_guests = PROGRAMS | (FOR_USERS if os.geteuid() else {})
    wanted = (of_guests if guests else {}) | ({} if paths.INSTALLED else COMPILING)
    return [f"{program} (package {package})" for program, package in wanted.items() if not shutil.which(program)]


def programs(guests: bool = True) -> list[str]:
    lacking = missing_programs(guests)
    if not lacking:
        return []
    how = "as root:  apt-get install" if paths.INSTALLED else "./pib deps"
    return [f"programs are missing: {', '.join(lacking)}. Install their packages ({how}), and have /usr/sbin and "
            "/usr/bin in PATH"]


def foreign_qemu() -> list[str]:
    """Checks that QEMU is that of Debian's package, for which the device is compiled. A user's own QEMU in
    /usr/local/bin comes first in Debian's PATH. A variable may name the headers of another QEMU, which the user wants.
    """
    found = shutil.which(DEBIANS_QEMU.name)
    if not found or not DEBIANS_QEMU.exists() or os.path.samefile(found, DEBIANS_QEMU):
        return []
    if os.environ.get(qemu_headers.VARIABLE):
        return []
    return [f"{found} comes before {DEBIANS_QEMU} in PATH, and the device is for Debian's QEMU. Put that first:  "
            f"PATH={DEBIANS_QEMU.parent}:$PATH ./pib …"]


def _nearest(path: pathlib.Path) -> pathlib.Path:
    """The path, or its nearest ancestor that exists. It uses os.path.exists(), because pathlib's test raises an error
    below a directory that this user must not enter."""
    return path if os.path.exists(path) else _nearest(path.parent)


def _gib_free(path: pathlib.Path) -> float:
    return shutil.disk_usage(_nearest(path)).free / 2**30


def _places(needed: Needed) -> list[tuple[pathlib.Path, float, str]]:
    """The directories that the lab writes to, as (path, GiB needed there, advice if it has less)."""
    elsewhere = "XDG_STATE_HOME names another place" if paths.INSTALLED else "use a checkout elsewhere"
    return [(paths.cache(), needed.cache or CACHE_GIB, OTHER_CACHE),
            (paths.RUN, needed.builds + needed.run or CHECKOUT_GIB, elsewhere),
            (pathlib.Path(tempfile.gettempdir()), needed.temporary or TEMPORARY_GIB, "TMPDIR names another place"),
            (pathlib.Path(os.environ.get("TMPDIR") or OVERLAYS), OVERLAYS_GIB, "TMPDIR names another place")]


def _file_system(path: pathlib.Path) -> int:
    return os.stat(_nearest(path)).st_dev


def space(needed: Needed) -> list[str]:
    """Checks the disk space of the directories that the lab writes to. Those on one file system share its space."""
    shared: dict[int, list[tuple[pathlib.Path, float, str]]] = {}
    for place in _places(needed):
        shared.setdefault(_file_system(place[0]), []).append(place)
    lacking = []
    for places in shared.values():
        path, _, other = max(places, key=lambda place: place[1])
        least = sum(place[1] for place in places)
        if _gib_free(path) < least:
            names = ", ".join(dict.fromkeys(str(place[0]) for place in places))
            lacking.append(f"{names}: {_gib_free(path):.1f} GiB are free, {least:.1f} are needed: free some, or "
                           f"{other}")
    return lacking


def rights(needed: Needed) -> list[str]:
    """Checks whether this user may write to the lab's directories. A cache that has all entries may be read-only,
    except for the entries in which builds write."""
    places = {path: other for path, _, other in _places(Needed())}
    if not needed.cache and os.path.isdir(paths.cache()):
        del places[paths.cache()]
    places |= dict.fromkeys(needed.written, OTHER_CACHE)
    if not paths.INSTALLED:
        places[paths.BUILD] = places[paths.RUN]
    denied: dict[pathlib.Path, str] = {}
    for path, other in places.items():
        above = _nearest(path)
        if not os.access(above, os.W_OK | os.X_OK):
            denied.setdefault(above, f"{path}: {_user()} cannot write to {above}. Permit it, or {other}")
    return list(denied.values())


def noexec() -> list[str]:
    """Checks that no directory with programs is mounted noexec: the guests' compiler and QEMU's configure run in the
    cache, the switch in the checkout's build directory. QEMU loads the device from there, too."""
    places = {paths.cache(): OTHER_CACHE}
    if not paths.INSTALLED:
        places[paths.BUILD] = "Use a checkout elsewhere"
    return [f"{path}: programs there cannot run, because the file system is mounted noexec. {advice}"
            for path, advice in places.items() if os.statvfs(_nearest(path)).f_flag & os.ST_NOEXEC]


def cache_name() -> list[str]:
    """Checks the path of the cache, because QEMU is configured there for its headers."""
    if paths.INSTALLED or not REFUSED.search(str(paths.cache())):
        return []
    return [f"{paths.cache()}: QEMU's configure takes no path with a blank or a colon. XDG_CACHE_HOME names another "
            "place"]


def processor() -> list[str]:
    """Checks for a processor on which Debian's compiler for the guests runs."""
    found = os.uname().machine
    if found == GUESTS_PROCESSOR:
        return []
    return [f"this processor is {found}, and guests are made only on {GUESTS_PROCESSOR}. A container can be of that, "
            "too: build it and run it with  --platform linux/amd64"]


def memory() -> list[str]:
    free = available_mib()
    if free >= BUILD_MIB:
        return []
    return [f"{free} MiB of memory are free, {BUILD_MIB} are needed to compile: end other programs, or add memory"]


def _user() -> str:
    """The user's name, or the user ID if the machine has no name for it, as in some containers. The environment may
    have the name of another user."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _lines(file: pathlib.Path) -> list[list[str]]:
    """The fields of each line of a file in SUBORDINATE: user, first ID, number of IDs."""
    return [line.split(":") for line in file.read_text().splitlines()] if file.exists() else []


def _first_unused_id() -> int:
    """The first of the subordinate IDs that no user has. Users with common IDs could change each other's files."""
    ends = [int(line[1]) + int(line[2]) for file in SUBORDINATE for line in _lines(file)
            if len(line) == 3 and line[1].isdigit() and line[2].isdigit()]
    return max([FIRST_ID, *ends])


def _ids(file: pathlib.Path, user: str) -> int:
    """The number of IDs in a user's first range, which unshare takes; 0 if there is none."""
    for name, first, count in (line for line in _lines(file) if len(line) == 3):
        if name in (user, str(os.getuid())) and first.isdigit() and count.isdigit() and int(count):
            return int(count)
    return 0


def _subordinate_ids(user: str) -> list[str]:
    """Checks whether the user has subordinate IDs for a user namespace, up to those of nobody and nogroup."""
    lacking = {file: count for file in SUBORDINATE if (count := _ids(file, user)) < IDS}
    if not lacking:
        return []
    first = _first_unused_id()
    # unshare uses the first range of a user, and usermod removes no ranges of a user who has processes. The advice
    # therefore puts a sufficient range before a short one.
    advice = [f"sudo sed -i '1i {user}:{first}:{IDS}' {file}" for file, short in lacking.items() if short]
    if options := " ".join(f"{SUBORDINATE[file]} {first}-{first + IDS - 1}" for file, short in lacking.items()
                           if not short):
        advice.append(f"sudo usermod {options} {user}")
    what = f"fewer than {IDS} IDs" if any(lacking.values()) else "no line"
    return [f"{' and '.join(map(str, lacking))}: {what} for {user}. Run:  {' && '.join(advice)}"]


def user_namespaces() -> list[str]:
    """Checks for the user namespace in which ordinary users make the image."""
    if os.geteuid() == 0:
        return []
    user = _user()
    problems = _subordinate_ids(user)
    if not problems and shutil.which("unshare") and shutil.which("newuidmap"):
        done = subprocess.run([*user_namespace.ENTER, "true"], capture_output=True, text=True, check=False)
        if done.returncode:
            problems.append(f"user namespaces cannot be used: {done.stderr.strip()}. {_forbidden()}")
        else:
            problems += _owners()
    return problems


def _owners() -> list[str]:
    """Checks whether files in the cache can have the owners of files in an image. On NFS, which many home directories
    are on, and on file systems of Windows they cannot."""
    place = _nearest(paths.cache())
    if not os.access(place, os.W_OK | os.X_OK):
        return []
    done = subprocess.run([*user_namespace.ENTER, "sh", "-ec", TRY_OWNER, "sh", str(place)], capture_output=True,
                          text=True, check=False)
    if not done.returncode:
        return []
    return [f"{paths.cache()}: files there cannot get other owners, as those of the guests' image have "
            f"({done.stderr.strip()}). {OTHER_CACHE}"]


def _forbidden() -> str:
    """Names the kernel setting that denies namespaces, if it can be found."""
    for name, (bad, good) in FORBIDDING.items():
        path = pathlib.Path("/proc/sys") / name
        if path.exists() and path.read_text().strip() == bad:
            return f"Run:  sudo sysctl {name.replace('/', '.')}={good}"
    return "Run ./pib as root, or in a virtual machine"


def devices() -> list[str]:
    """Checks that root has the devices that compilers in a new tree need. In some containers root can neither make nor
    mount devices."""
    if os.geteuid() or not user_namespace.confined() or user_namespace.can_mount():
        return []
    return ["compilers run in a new tree of Debian packages, which needs devices, and this container lets root neither "
            "make device nodes nor mount them. Start it with  --cap-add MKNOD,  or, where a user without root starts "
            "it, with  --privileged"]


def check(needed: Needed, guests: bool = True) -> None:
    """Makes the checks that precede the installation of packages. One error contains all findings. guests: whether the
    command uses guests."""
    denied = rights(needed)
    _none([*(processor() if guests else []), *denied, *space(needed), *noexec(), *cache_name(),
           *(memory() if needed.builds else []), *(user_namespaces() if guests else []),
           *(devices() if needed.compiles and not denied else [])])


def check_programs(guests: bool = True) -> None:
    """Checks for programs that the steps after the installation of packages need."""
    _none([*programs(guests), *((foreign_qemu() + user_namespaces()) if guests else [])])


def _none(problems: list[str]) -> None:
    if problems:
        raise ui.LabError("this machine cannot run the lab yet:\n  " + "\n  ".join(problems))
