# SPDX-License-Identifier: GPL-2.0-or-later
"""The examples for GitHub Actions and GitLab CI: ./pib accepts their commands, their caches are keyed by the source and
hold packed disks, and the container shares a cache on a volume."""

import contextlib
import os
import shlex
import subprocess

import pytest
import yaml

from lab import __main__ as command_line
from lab.base import paths

FOLDER = paths.ROOT / "examples" / "ci"
ENTRY = paths.ROOT / "packaging" / "container-entry"
HOLE = 1 << 30
# The first version of each action whose action.yml has "using: node24".
NODE_24 = {"actions/checkout": 5, "actions/cache/restore": 5, "actions/cache/save": 5, "actions/upload-artifact": 6}
# Stands for pib, podman and a container of pib-hca: makes a disk with a hole unless there is one, and adds a line to
# the file `made` then.
PIB = f"""#!/bin/sh
disk=.cache/pib-hca/packages-trixie-0/root.ext4
case $* in
*" ci "* | "ci "*)
    trap 'exit ${{STATUS:-0}}' EXIT
    mkdir -p .cache/pib-hca/locks "${{disk%/*}}"
    [ -e $disk ] || {{ echo made >>made; echo data >$disk; truncate -s {HOLE} $disk; }}
esac
"""


def steps():
    return yaml.safe_load((FOLDER / "github-actions.yml").read_text())["jobs"]["test"]["steps"]


def github():
    """Shell scripts, one for each step."""
    return [step["run"] for step in steps() if "run" in step]


def gitlab():
    job = yaml.safe_load((FOLDER / "gitlab-ci.yml").read_text())["rdma"]
    return [*job["before_script"], *job["script"], *job["after_script"]]


def pib_words(scripts):
    """The words of each command of pib: after the name of its image, or of the program."""
    for line in "\n".join(scripts).splitlines():
        words = shlex.split(line)
        if words[:2] == ["podman", "run"]:
            yield words[words.index("pib-hca") + 1:]
        elif words and words[0].endswith("/pib"):
            yield words[1:]


@pytest.mark.parametrize("scripts, commands", [(github(), ["ci"]), (gitlab(), ["ci", "clean"])])
def test_pib_accepts_the_commands(scripts, commands):
    found = list(pib_words(scripts))
    assert [words[0] for words in found] == commands
    for words in found:
        options = command_line.parser().parse_args(words)
        assert words[0] != "ci" or options.command[-1] == "./test.sh"
    for script in scripts:
        subprocess.run(["bash", "-n", "-c", script], check=True)


def run(script, place, **env):
    """Runs a script as both systems do: the shell ends at the first command that fails."""
    subprocess.run(["bash", "-e", "-c", script], cwd=place, env={**os.environ, **env}, check=True)


@pytest.fixture(name="programs")
def _programs(tmp_path):
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("pib", "podman"):
        (folder / name).write_text(PIB)
        (folder / name).chmod(0o755)
    return folder


def test_the_caches_of_a_job_are_kept_if_its_test_fails():
    """Each cache that is restored is saved by a step of its own, with the same key; GitLab saves always."""
    def keys(kind):
        return {step["with"]["key"] for step in steps() if step.get("uses", "").startswith(f"actions/cache/{kind}@")}
    assert keys("restore") == keys("save") and len(keys("save")) == 2
    assert not any(step.get("uses", "").startswith("actions/cache@") for step in steps())
    disks = next(step for step in steps() if step.get("with", {}).get("path") == "pib-disks.tar.zst" and
                 "/save@" in step["uses"])
    assert "always()" in disks["if"] and "steps.run.outputs.packed == 'yes'" in disks["if"]
    assert yaml.safe_load((FOLDER / "gitlab-ci.yml").read_text())["rdma"]["cache"]["when"] == "always"


def test_the_cache_is_saved_before_the_job_of_gitlab_times_out():
    """A job that has used up its time runs no after_script. An after_script without its own limit has 5 minutes."""
    job = yaml.safe_load((FOLDER / "gitlab-ci.yml").read_text())["rdma"]
    script, after = (int(job["variables"][f"RUNNER_{name}_TIMEOUT"].removesuffix("m"))
                     for name in ("SCRIPT", "AFTER_SCRIPT"))
    hours, unit = job["timeout"].split()
    assert unit == "hours" and after > 5 and script + after < 60 * int(hours)


def test_the_actions_run_on_node_24():
    """GitHub's runners have had no older Node.js since September 2026."""
    used = [step["uses"].split("@v") for step in steps() if "uses" in step]
    assert {name for name, _ in used} == set(NODE_24) and all(int(major) >= NODE_24[name] for name, major in used)


def test_a_change_of_any_source_makes_the_image_anew(tmp_path, programs):
    """The key of the image's cache has the commit."""
    def git(*words):
        subprocess.run(["git", "-C", source, "-c", "user.name=a", "-c", "user.email=a@b.example", *words], check=True)

    def key():
        (tmp_path / "output").write_text("")
        run(made_by["run"], tmp_path, GITHUB_OUTPUT=str(tmp_path / "output"), PATH=f"{programs}:{os.environ['PATH']}")
        return (tmp_path / "output").read_text()
    (programs / "date").write_text("#!/bin/sh\necho 2026-11\n")
    (programs / "date").chmod(0o755)
    made_by = next(step for step in steps() if step.get("id") == "source")
    image = next(step for step in steps() if step.get("id") == "image")
    assert "steps.source.outputs.key" in image["with"]["key"]
    source = tmp_path / "pib-hca"
    (source / "lab").mkdir(parents=True)
    git("init", "-q")
    keys = []
    for text in ("old", "new"):
        (source / "lab" / "ci.py").write_text(text)
        git("add", ".")
        git("commit", "-q", "-m", text)
        keys += [key(), key()]
    assert keys[0] == keys[1] != keys[2] == keys[3] and all(one.endswith("-2026-11\n") for one in keys)


def run_github(_programs, job, **env):
    run(github()[-1], job, GITHUB_OUTPUT=str(job / "output"), **env)


def run_gitlab(programs, job, **env):
    """after_script runs in a shell of its own, even if the test has failed."""
    of = yaml.safe_load((FOLDER / "gitlab-ci.yml").read_text())["rdma"]
    parts = ["\n".join(lines).replace("/pib-hca/pib", shlex.quote(str(programs / "pib")))
             for lines in ([*of["before_script"][2:], *of["script"]], of["after_script"])]
    try:
        run(parts[0], job, **env)
    finally:
        run(parts[1], job, **env)


@pytest.mark.parametrize("run_job, packed", [(run_github, "pib-disks.tar.zst"), (run_gitlab, "pib-cache.tar.zst")])
def test_the_cache_keeps_disks_without_their_holes(tmp_path, programs, run_job, packed):
    """Two jobs on two machines, the first one with a test that fails: the second has nothing but the file of the
    cache."""
    cached = [*(step["with"].get("path") for step in steps() if "cache/save@" in step.get("uses", "")),
              *yaml.safe_load((FOLDER / "gitlab-ci.yml").read_text())["rdma"]["cache"]["paths"]]
    assert packed in cached
    first, second = tmp_path / "first job", tmp_path / "second job"
    for job in (first, second):
        job.mkdir()
        if job is second:
            (first / packed).rename(second / packed)
        fails = pytest.raises(subprocess.CalledProcessError) if job is first else contextlib.nullcontext()
        with fails:
            run_job(programs, job, PATH=f"{programs}:{os.environ['PATH']}", STATUS="1" if job is first else "0")
        assert (job / packed).stat().st_size < 1 << 20
    disk = (second / ".cache" / "pib-hca" / "packages-trixie-0" / "root.ext4").stat()
    assert disk.st_size == HOLE and disk.st_blocks * 512 < 1 << 20
    assert (first / "made").exists() and not (second / "made").exists()


def test_the_container_shares_a_cache_on_a_volume(tmp_path, programs):
    """Two containers one after the other, of two images; each has a guest image of its own."""
    (programs / "id").write_text("#!/bin/sh\necho 0\n")
    (programs / "id").chmod(0o755)
    kept = tmp_path / "volume" / "pib-hca"
    for name in ("guest-old", "guest-new"):
        own = tmp_path / name / ".cache" / "pib-hca"
        source = name.replace("guest", "rdma-core")
        for entry in (name, source, "locks"):
            (own / entry).mkdir(parents=True)
        subprocess.run([ENTRY, "clean"], cwd=tmp_path, check=True,
                       env={"HOME": str(tmp_path / name), "XDG_CACHE_HOME": str(kept.parent),
                            "PATH": f"{programs}:{os.environ['PATH']}"})
        assert (kept / name).resolve() == own / name and (kept / source).resolve() == own / source
        (kept / "packages-trixie-0").mkdir(exist_ok=True)
    assert sorted(entry.name for entry in kept.iterdir()) == ["guest-new", "guest-old", "packages-trixie-0",
                                                              "rdma-core-new", "rdma-core-old"]
    assert (kept / "guest-old").resolve().is_relative_to(tmp_path / "guest-old")    # that container may still run
