# SPDX-License-Identifier: GPL-2.0-or-later
"""Child programs of a command, and signals that the command ignores."""

import signal
import subprocess
import sys

from lab.base import paths

NOHUP = """
import signal, sys
from lab.base import child, signals
signal.signal(signal.SIGHUP, signal.SIG_IGN)        # as nohup does
signals.raise_on_end()
line = "echo begun; until [ -e $0 ]; do sleep 0.05; done; echo done"
print(child.run(child.Program(["sh", "-c", line, sys.argv[1]])))
"""


def test_programs_go_on_when_the_terminal_of_nohup_is_closed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", NOHUP, tmp_path / "go"], cwd=paths.ROOT, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as one:
        assert one.stdout.readline() == "begun\n"
        one.send_signal(signal.SIGHUP)
        (tmp_path / "go").touch()
        assert one.communicate(timeout=60) == ("done\n[0]\n", "")
