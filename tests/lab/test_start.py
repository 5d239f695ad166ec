# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib runs only code of its checkout, from any working directory."""

import os
import shutil
import subprocess
import sys
import types

import pytest

from checkouts import copy_checkout, pib
from lab.build import deps


@pytest.mark.parametrize("python_path", ["", "."])
def test_code_of_the_working_directory_is_not_run(checkout, tmp_path, python_path):
    foreign = tmp_path / "foreign"
    (foreign / "lab").mkdir(parents=True)
    for name in ("lab/__init__.py", "lab/__main__.py", "json.py", "argparse.py"):
        (foreign / name).write_text(f"open({str(tmp_path / 'proof')!r}, 'w')\n")
    done = pib(checkout, "status", cwd=foreign, env={**os.environ, "PYTHONPATH": python_path})
    assert "Nothing runs" in done.stdout, done.stderr
    assert not (tmp_path / "proof").exists()


def test_code_of_the_working_directory_is_not_run_without_tools(checkout, tmp_path):
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "start.py").write_text(f"open({str(tmp_path / 'proof')!r}, 'w')\n")
    done = subprocess.run(["/bin/sh", checkout / "pib", "status"], cwd=tmp_path, env={"PATH": "/nowhere"},
                          capture_output=True, text=True, check=False)
    assert done.returncode and not (tmp_path / "proof").exists()


@pytest.mark.parametrize("name", ["a b", "a:b", "a,b", "a'b"])
def test_a_checkout_may_have_any_name(tmp_path, name):
    assert "Nothing runs" in pib(copy_checkout(tmp_path / name), "status").stdout


def test_tests_in_a_checkout_with_a_colon_are_refused_at_once(tmp_path):
    done = pib(copy_checkout(tmp_path / "a:b"), "test", "style")
    assert done.returncode == 1 and done.stderr.startswith("pib: ") and "without a colon" in done.stderr


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


def test_an_interrupt_during_imports_prints_one_line(checkout):
    (checkout / "lab" / "base" / "lock.py").write_text("raise KeyboardInterrupt\n")
    done = pib(checkout, "status")
    assert (done.returncode, done.stderr) == (130, "pib: interrupted\n")


def test_the_starter_passes_arguments(checkout):
    (checkout / "lab" / "echo.py").write_text("import sys\nprint(sys.argv[1:], __name__)\n")
    said = subprocess.run([sys.executable, "-I", "-B", checkout / "lab" / "start.py", "lab.echo", "a", "b c"],
                          capture_output=True, text=True, check=True).stdout
    assert said == "['a', 'b c'] __main__\n"


def test_help_is_found_without_knowing_the_option(checkout):
    for words, line in (((), "usage: pib "), (("help",), "usage: pib "), (("help", "up"), "usage: pib up ")):
        done = pib(checkout, *words)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith(line)
    assert pib(checkout, "help", "nothing").returncode == 2


def _up_elsewhere(checkout, tools, programs: dict[str, str | None], release: str = "") -> subprocess.CompletedProcess:
    """Runs ./pib up on a system whose programs are these scripts, by name. release: its os-release, if it has one."""
    tools.mkdir()
    (tools / "readlink").symlink_to(shutil.which("readlink"))
    for name, script in programs.items():
        if script:
            (tools / name).write_text(script)
            (tools / name).chmod(0o755)
    if release:
        (tools / "os-release").write_text(release)
    text = (checkout / "pib").read_text().replace("/usr/bin/python3", f"{tools}/python3")
    (checkout / "pib").write_text(text.replace("/etc/os-release", f"{tools}/os-release"))
    return subprocess.run(["/bin/sh", checkout / "pib", "up"], env={"PATH": str(tools)}, capture_output=True, text=True,
                          check=False)


@pytest.mark.parametrize("python", [None, "#!/bin/sh\nexit 1\n"])
@pytest.mark.parametrize("processor", ["", "x86_64", "arm64"])
def test_another_system_without_this_python_gets_the_container(checkout, tmp_path, monkeypatch, python, processor):
    """A system without Python 3.11 and without apt."""
    done = _up_elsewhere(checkout, tmp_path / "tools",
                         {"python3": python, "uname": processor and f"#!/bin/sh\necho {processor}\n"})
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    monkeypatch.setattr(os, "uname", lambda: types.SimpleNamespace(machine=processor or "x86_64"))
    assert "Debian 12" in done.stderr and done.stderr.endswith(f"  {deps.container()}\n")
    assert done.stderr.count("--platform linux/amd64") == (2 if processor == "arm64" else 0)


@pytest.mark.parametrize("release, expected", [
    ('NAME="Ubuntu"\nVERSION_CODENAME=noble\n', "pib: this is not Debian 12 or 13. The container runs here"),
    ('NAME="Debian GNU/Linux"\n', "pib: this is not Debian 12 or 13. The container runs here"),
    ('NAME="Debian GNU/Linux"\nVERSION_CODENAME=trixie\n', "pib: installing python3\n")],
    ids=["Ubuntu", "testing", "trixie"])
def test_python_is_installed_on_debian_alone(checkout, tmp_path, release, expected):
    """Ubuntu has apt as well, and its containers have no Python. apt-get fails here."""
    apt = f"#!/bin/sh\necho called >>{tmp_path}/called\nexit 1\n"
    done = _up_elsewhere(checkout, tmp_path / "tools",
                         {"apt-get": apt, "id": "#!/bin/sh\necho 0\n", "sh": '#!/bin/sh\nexec /bin/sh "$@"\n'}, release)
    assert done.returncode and done.stderr.startswith(expected), done.stderr
    assert (tmp_path / "called").exists() == ("trixie" in release)
