# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib runs code of its checkout alone, from any working directory."""

import os
import subprocess
import sys

import pytest

from checkouts import copy_checkout, pib


@pytest.mark.parametrize("python_path", ["", "."])
def test_code_of_the_working_directory_is_not_run(checkout, tmp_path, python_path):
    foreign = tmp_path / "foreign"
    (foreign / "lab").mkdir(parents=True)
    for name in ("lab/__init__.py", "lab/__main__.py", "json.py", "argparse.py"):
        (foreign / name).write_text(f"open({str(tmp_path / 'proof')!r}, 'w')\n")
    done = pib(checkout, "status", cwd=foreign, env={**os.environ, "PYTHONPATH": python_path})
    assert "Nothing runs" in done.stdout, done.stderr
    assert not (tmp_path / "proof").exists()


@pytest.mark.parametrize("name", ["a b", "a:b", "a,b", "a'b"])
def test_a_checkout_may_have_any_name(tmp_path, name):
    assert "Nothing runs" in pib(copy_checkout(tmp_path / name), "status").stdout


def test_started_programs_do_not_inherit_the_python_path(checkout):
    """The version command runs git; a script in its place prints the environment."""
    tools = checkout / "tools"
    tools.mkdir()
    (tools / "git").write_text("#!/bin/sh\nenv\n")
    (tools / "git").chmod(0o755)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = pib(checkout, "--version", env={**env, "PATH": f"{tools}:{os.environ['PATH']}"})
    assert done.stdout.startswith("pib-hca 0.") and "PATH=" in done.stdout
    assert "PYTHONPATH=" not in done.stdout


def test_the_starter_passes_arguments(checkout):
    (checkout / "lab" / "echo.py").write_text("import sys\nprint(sys.argv[1:], __name__)\n")
    said = subprocess.run([sys.executable, "-I", "-B", checkout / "lab" / "start.py", "lab.echo", "a", "b c"],
                          capture_output=True, text=True, check=True).stdout
    assert said == "['a', 'b c'] __main__\n"
