# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a command as root of a new user namespace, which has all IDs of the present one and may mount:

    python3 -I -B lab/start.py lab.build.root_namespace COMMAND [ARGUMENT…]

Root of a container runs commands so if the container may not make device nodes. podman gives no CAP_MKNOD, and without
root no capability helps. In the namespace the container's own devices are mounted in place of new ones. unshare(1)
alone asks newuidmap, which refuses these IDs."""

import os
import pathlib
import subprocess
import sys

MAPS = ("uid_map", "gid_map")
# The shell gets its IDs while it waits. The command gets all capabilities of the namespace when the shell starts it.
WAIT = 'echo >&{ready}; read -r _ <&{wait} || exit 1; exec {ready}>&- {wait}<&-; exec "$@"'


def identity(mapping: str) -> str:
    """A mapping that gives a new namespace the IDs of the one that has this mapping, as in /proc/PID/uid_map."""
    return "".join(f"{first} {first} {count}\n" for first, _, count in map(str.split, mapping.splitlines()))


def _map(pid: int) -> None:
    for name in MAPS:
        pathlib.Path(f"/proc/{pid}/{name}").write_text(identity(pathlib.Path(f"/proc/self/{name}").read_text()))


def main() -> int:
    here, ready = os.pipe()
    wait, go = os.pipe()
    script = WAIT.format(ready=ready, wait=wait)
    with subprocess.Popen(["unshare", "--user", "--mount", "--", "sh", "-c", script, "sh", *sys.argv[1:]],
                          pass_fds=(ready, wait)) as process:
        os.close(ready)
        os.close(wait)
        try:
            if os.read(here, 1):
                _map(process.pid)
                os.write(go, b"\n")
        except OSError as error:
            print(f"a user namespace with all IDs cannot be made: {error.strerror}", file=sys.stderr)
        finally:
            os.close(go)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
