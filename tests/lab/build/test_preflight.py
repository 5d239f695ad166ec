# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks of ./pib at its start, and the environment of the programs that it starts."""

import collections
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import types

import pytest

from lab.base import environment, paths, ui
from lab.build import builder, image, preflight, qemu_headers, root_namespace, user_namespace
from lab.guests import guest_kernel
from lab.testing import parts


@pytest.fixture
def plenty(monkeypatch):
    """A machine on which nothing is missing."""
    for check in ("rights", "space", "memory", "user_namespaces", "programs"):
        monkeypatch.setattr(preflight, check, lambda *_: [])


def test_a_good_machine_passes(plenty):
    preflight.check(preflight.Needed(cache=5, builds=1))
    preflight.check_programs()


def test_all_faults_are_reported_at_once(plenty, monkeypatch):
    monkeypatch.setattr(preflight, "space", lambda *_: ["too little space"])
    monkeypatch.setattr(preflight, "user_namespaces", lambda: ["no namespaces"])
    with pytest.raises(ui.LabError, match="(?s)too little space.*no namespaces"):
        preflight.check(preflight.Needed(cache=5, builds=1))


def test_space_is_checked_where_it_will_be_used(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "not" / "there"))
    usage = collections.namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, 2**30 if path == tmp_path else 2**40))
    monkeypatch.setattr(preflight, "_file_system", lambda path: tmp_path in path.parents)
    assert preflight.space(preflight.Needed(builds=1)) == []
    problem, = preflight.space(preflight.Needed(cache=5, builds=1))
    assert "1.0 GiB are free, 5.0 are needed" in problem and "XDG_CACHE_HOME" in problem


def test_directories_on_one_file_system_share_its_space(monkeypatch):
    usage = collections.namedtuple("usage", "total used free")
    monkeypatch.setattr(preflight, "_file_system", lambda _path: 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(0, 0, int(6.4 * 2**30)))
    problem, = preflight.space(preflight.Needed(cache=5, builds=1))
    assert "6.4 GiB are free, 6.6 are needed" in problem
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(0, 0, int(6.7 * 2**30)))
    assert preflight.space(preflight.Needed(cache=5, builds=1)) == []


def test_space_for_temporary_files_and_for_the_run_directory_is_checked(monkeypatch):
    usage = collections.namedtuple("usage", "total used free")
    monkeypatch.setattr(preflight, "_file_system", str)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(0, 0, 2**30))
    assert preflight.space(preflight.Needed(run=0.5)) == []
    problem, = preflight.space(preflight.Needed(builds=1, run=0.5))
    assert problem.startswith(f"{paths.RUN}: 1.0 GiB are free, 1.5 are needed: free some")
    problem, = preflight.space(preflight.Needed(temporary=12))
    assert "1.0 GiB are free, 12.0 are needed: free some, or TMPDIR names another place" in problem


def test_root_that_may_make_no_devices_is_told_so_before_anything_is_compiled(plenty, monkeypatch, tmp_path):
    """Some containers let root neither make device nodes nor mount them in a user namespace."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    can_mount, makes = [False], [False]
    monkeypatch.setattr(user_namespace, "makes_devices", lambda _directory: makes[0])
    monkeypatch.setattr(user_namespace, "can_mount", lambda: can_mount[0])
    preflight.check(preflight.Needed(cache=5))
    assert user_namespace.as_owner() == []      # a disk with packages is made
    with pytest.raises(ui.LabError, match="neither make device nodes nor mount them.*--cap-add MKNOD.*--privileged"):
        preflight.check(preflight.Needed(cache=5, compiles=True))
    can_mount[0] = True
    preflight.check(preflight.Needed(cache=5, compiles=True))
    assert user_namespace.as_owner() == [*user_namespace.NAMESPACE]
    makes[0] = True
    assert user_namespace.as_owner() == []


def test_a_trial_shows_whether_device_nodes_can_be_made(monkeypatch, tmp_path):
    def denied(*_):
        raise PermissionError
    user_namespace.makes_devices.cache_clear()
    monkeypatch.setattr(os, "mknod", denied)
    assert not user_namespace.makes_devices(tmp_path)
    user_namespace.makes_devices.cache_clear()
    monkeypatch.setattr(os, "access", lambda *_: False)     # no tree is made there
    assert user_namespace.makes_devices(tmp_path) and user_namespace.makes_devices(tmp_path / "not there")


def test_a_namespace_has_the_ids_of_the_present_one():
    assert root_namespace.identity("         0       1000          1\n         1     100000      65536\n") == (
        "0 0 1\n1 1 65536\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="wants root")
def test_root_of_a_container_mounts_devices_in_a_namespace(tmp_path):
    """The capabilities are those that podman leaves to a container."""
    kept = ("chown", "dac_override", "fowner", "fsetid", "kill", "setfcap", "setgid", "setpcap", "setuid", "sys_chroot")
    script = ('! mknod "$1/null" c 1 3; >"$1/null"; mount --bind /dev/null "$1/null"; echo >"$1/null"; '
              'chown 65533:5 "$1"; stat -c %u:%g:%F "$1" "$1/null"; exit 3')
    limited = ("setpriv", "--bounding-set", ",".join(["-all", *(f"+{name}" for name in kept)]), "--")
    done = subprocess.run([*limited, *user_namespace.NAMESPACE, "sh", "-c", script, "sh", tmp_path],
                          capture_output=True, text=True, check=False)
    if "cannot be made" in done.stderr or "unshare" in done.stderr:
        pytest.skip("no user namespaces here")
    assert done.stdout.splitlines() == ["65533:5:directory", "0:0:character special file"] and done.returncode == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="wants root")
def test_a_namespace_that_is_denied_ends_the_command():
    done = subprocess.run(["setpriv", "--bounding-set", "-all", "--", *user_namespace.NAMESPACE, "true"],
                          capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode and "Operation not permitted" in done.stderr


def test_a_cache_where_programs_cannot_run_is_refused(plenty, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "not" / "there"))
    flags = collections.namedtuple("flags", "f_flag")
    monkeypatch.setattr(os, "statvfs", lambda path: flags(os.ST_NOEXEC if path == tmp_path else 0))
    with pytest.raises(ui.LabError, match="there/pib-hca: programs there cannot run.*XDG_CACHE_HOME"):
        preflight.check(preflight.Needed())


def test_a_checkout_where_programs_cannot_run_is_refused(plenty, monkeypatch, tmp_path):
    """The cache is outside of the checkout, as the error of the cache's check advises. An installed lab has no build
    directory, so its check passes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(paths, "BUILD", tmp_path / "checkout" / "build")
    (tmp_path / "checkout").mkdir()
    flags = collections.namedtuple("flags", "f_flag")
    monkeypatch.setattr(os, "statvfs", lambda path: flags(os.ST_NOEXEC if path.name == "checkout" else 0))
    with pytest.raises(ui.LabError, match="checkout/build: programs there cannot run.*checkout elsewhere"):
        preflight.check(preflight.Needed())
    monkeypatch.setattr(paths, "INSTALLED", {"version": "1"})
    preflight.check(preflight.Needed())


@pytest.fixture(name="denied")
def directories_that_deny_writing(monkeypatch):
    """Directories without write permission, simulated because tests may run as root."""
    found = set()
    monkeypatch.setattr(os, "access", lambda path, _mode: path not in found)
    return found


def test_a_cache_that_cannot_be_made_is_reported(monkeypatch, tmp_path, denied):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "not" / "there"))
    assert preflight.rights(preflight.Needed()) == []
    denied.add(tmp_path)
    problem, = preflight.rights(preflight.Needed())
    assert f"cannot write to {tmp_path}. " in problem and "XDG_CACHE_HOME names another place" in problem


def test_a_cache_that_has_the_image_may_be_read_only(monkeypatch, tmp_path, denied):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "pib-hca").mkdir()
    denied.add(tmp_path / "pib-hca")
    assert preflight.rights(preflight.Needed()) == []
    assert len(preflight.rights(preflight.Needed(cache=5))) == 1


def test_a_build_tree_that_cannot_be_written_is_reported(monkeypatch, tmp_path, denied):
    """Driver, provider and programs of the guests are built in the image's directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    base = image.directory()
    work = builder.place(base)
    work.parent.mkdir(parents=True)
    (base / "identity").write_text("packages")
    assert preflight.rights(guest_kernel.needed()) == []
    denied.update({tmp_path / "pib-hca", work.parent})
    problem, = preflight.rights(guest_kernel.needed())
    assert f"{work}: " in problem and f"cannot write to {work.parent}. " in problem and "XDG_CACHE_HOME" in problem
    denied.add(base)
    assert len(preflight.rights(guest_kernel.needed())) == 2
    assert len(preflight.rights(parts._needed([parts.PARTS["guest"]]))) == 2
    assert preflight.rights(guest_kernel.needed(builds=False)) == []


def test_a_checkout_that_cannot_be_written_is_reported_once(monkeypatch, tmp_path, denied):
    monkeypatch.setattr(paths, "RUN", tmp_path / ".lab")
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    denied.add(tmp_path)
    problem, = preflight.rights(preflight.Needed())
    assert problem.startswith(f"{tmp_path}/.lab: ") and problem.endswith("or use a checkout elsewhere")
    (tmp_path / ".lab").mkdir()
    problem, = preflight.rights(preflight.Needed())
    assert problem.startswith(f"{tmp_path}/build: ")


@pytest.mark.skipif(os.getuid() == 0, reason="root may enter every directory")
def test_a_home_that_must_not_be_entered_is_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / "cache"))
    (tmp_path / "home").mkdir(mode=0)
    assert any("XDG_CACHE_HOME" in problem for problem in preflight.rights(preflight.Needed(cache=5)))


@pytest.mark.parametrize("free, faults", [(preflight.BUILD_MIB, 0), (preflight.BUILD_MIB - 1, 1)])
def test_less_memory_than_a_build_needs_is_a_fault(monkeypatch, free, faults):
    monkeypatch.setattr(preflight, "available_mib", lambda: free)
    assert len(preflight.memory()) == faults


@pytest.mark.parametrize("name, refused", [("plain", False), ("with blank", True), ("a:b", True), ("a,b", False)])
def test_a_cache_that_qemu_cannot_be_configured_in_is_refused(plenty, monkeypatch, name, refused):
    monkeypatch.setenv("XDG_CACHE_HOME", f"/var/{name}")
    if not refused:
        preflight.check(preflight.Needed(cache=5, builds=1))
        return
    with pytest.raises(ui.LabError, match=f"/var/{name}/pib-hca: QEMU's configure.*XDG_CACHE_HOME"):
        preflight.check(preflight.Needed(cache=5, builds=1))


def test_another_processor_is_refused_at_once(plenty, monkeypatch):
    machine = collections.namedtuple("machine", "machine")
    monkeypatch.setattr(os, "uname", lambda: machine("aarch64"))
    with pytest.raises(ui.LabError, match="this processor is aarch64.*--platform linux/amd64"):
        preflight.check(preflight.Needed())
    preflight.check(preflight.Needed(), guests=False)


def test_a_user_needs_subordinate_ids(monkeypatch, tmp_path):
    file = tmp_path / "subuid"
    file.write_text("someone:100000:65536\n")
    monkeypatch.setattr(preflight, "SUBORDINATE", {file: "--add-subuids", tmp_path / "none": "--add-subgids"})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    name = ["someone"]
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: types.SimpleNamespace(pw_name=name[0]))
    monkeypatch.setenv("LOGNAME", "root")       # as programs that change the user leave it
    problem, = preflight.user_namespaces()
    assert problem == (f"{tmp_path}/none: no line for someone. Run:  sudo usermod --add-subgids 165536-231071 "
                       "someone")
    name[0] = "else"
    problem, = preflight.user_namespaces()
    assert problem.endswith("no line for else. Run:  sudo usermod --add-subuids 165536-231071 --add-subgids "
                            "165536-231071 else")


def test_a_users_range_of_ids_has_to_suffice(monkeypatch, tmp_path):
    """unshare takes only the first range. apt sets the group nogroup, 65534."""
    files = [tmp_path / "subuid", tmp_path / "subgid"]
    files[0].write_text("someone:100000:1000\nsomeone:200000:65536\n")
    files[1].write_text("1000:100000:65536\n")
    monkeypatch.setattr(preflight, "SUBORDINATE", dict(zip(files, ("--add-subuids", "--add-subgids"))))
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    said, = preflight._subordinate_ids("someone")
    assert said == (f"{files[0]}: fewer than 65536 IDs for someone. Run:  sudo sed -i '1i someone:265536:65536' "
                    f"{files[0]}")
    subprocess.run(["sed", "-i", "1i someone:265536:65536", files[0]], check=True)
    assert preflight._subordinate_ids("someone") == []
    files[0].write_text("damaged\nother:1:2\nsomeone:100000:65536\n")
    assert preflight._subordinate_ids("someone") == []


def test_a_user_without_a_name_is_called_by_his_number(monkeypatch, tmp_path):
    def unknown(_uid):
        raise KeyError
    monkeypatch.setattr(preflight, "SUBORDINATE", {tmp_path / "none": "--add-subuids"})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setenv("LOGNAME", "root")
    problem, = preflight.user_namespaces()
    assert problem.startswith(f"{tmp_path}/none: no line for 1000. Run:  sudo usermod --add-subuids 100000-165535 ")


@pytest.mark.parametrize("fails", ["", "Operation not permitted"])
def test_a_cache_in_which_files_have_one_owner_is_refused(monkeypatch, tmp_path, fails):
    """NFS, for example, may give all files one owner. The programs are stand-ins, because this user may be root."""
    for name, script in {"unshare": 'while [ "$1" != sh ] && [ "$1" != true ]; do shift; done; exec "$@"',
                         "newuidmap": "", "chown": f"echo 'chown: {fails}' >&2; exit {len(fails)}"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache" / "below"))
    monkeypatch.setattr(preflight, "_subordinate_ids", lambda _user: [])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    before = set(tmp_path.iterdir())
    found = preflight.user_namespaces()
    assert len(found) == bool(fails)
    assert all(f"other owners, as those of the guests' image have (chown: {fails})" in one for one in found)
    assert set(tmp_path.iterdir()) == before


def test_root_needs_no_subordinate_ids(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(preflight, "SUBORDINATE", {})
    assert preflight.user_namespaces() == []


def test_missing_programs_are_named_with_their_packages(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda program: None if program == "mke2fs" else f"/usr/bin/{program}")
    problem, = preflight.programs()
    assert "mke2fs (package e2fsprogs)" in problem


def test_a_qemu_for_which_the_device_is_not_compiled_is_refused(plenty, monkeypatch, tmp_path):
    """Debian's PATH begins with /usr/local/bin."""
    own, debians = tmp_path / "local" / "qemu-system-x86_64", tmp_path / "bin" / "qemu-system-x86_64"
    monkeypatch.setattr(preflight, "DEBIANS_QEMU", debians)
    for file in (own, debians):
        file.parent.mkdir()
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    monkeypatch.delenv(qemu_headers.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", f"{own.parent}:{debians.parent}:/usr/bin")
    with pytest.raises(ui.LabError, match=f"{own} comes before {debians} .*:  PATH={debians.parent}:"):
        preflight.check_programs()
    preflight.check_programs(guests=False)
    monkeypatch.setenv("PATH", f"{debians.parent}:{own.parent}:/usr/bin")
    preflight.check_programs()
    monkeypatch.setenv("PATH", f"{own.parent}:{debians.parent}:/usr/bin")
    monkeypatch.setenv(qemu_headers.VARIABLE, "/headers/of/mine")
    preflight.check_programs()
    monkeypatch.delenv(qemu_headers.VARIABLE)
    own.unlink()
    own.symlink_to(debians)
    preflight.check_programs()


def test_programs_are_found_without_sbin_in_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin")
    environment.settle()
    path = os.environ["PATH"].split(":")
    assert path[:2] == [str(tmp_path), "/usr/bin"] and {"/usr/sbin", "/sbin", "/usr/local/sbin"} <= set(path)
    environment.settle()
    assert os.environ["PATH"].split(":") == path


def test_a_directory_for_temporary_files_that_has_gone_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    environment.settle()
    assert os.environ["TMPDIR"] == str(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))
    environment.settle()
    assert "TMPDIR" not in os.environ


def test_every_command_has_sbin_and_a_usual_umask():
    code = ("import os, runpy, sys; sys.argv = ['pib', 'topology', 'star']\n"
            "try: runpy.run_module('lab', run_name='__main__', alter_sys=True)\n"
            "except SystemExit: pass\n"
            "print(os.environ['PATH'], oct(os.umask(0)), file=sys.stderr)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, umask=0o077,
                          env={"PATH": "/usr/bin", "PYTHONPATH": str(paths.ROOT)})
    path, umask = done.stderr.split()[-2:]
    assert "/usr/sbin" in path.split(":") and umask == "0o22"


@pytest.mark.parametrize("folder", ["debug", "guest", "lab", "packages"])
def test_tests_have_sbin_without_pib(folder):
    """A developer runs pytest by hand, with the PATH that Debian gives a user."""
    file = next((paths.ROOT / "tests" / folder).glob("test_*.py"))
    code = ("import os, pytest, sys; pytest.main(['-qq', '--collect-only', '-p', 'no:cacheprovider', sys.argv[1]]); "
            "print(os.environ['PATH'], oct(os.umask(0)))")
    done = subprocess.run([sys.executable, "-B", "-c", code, file], capture_output=True, text=True, check=True,
                          umask=0o077, cwd=paths.ROOT, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(paths.ROOT)})
    path, umask = done.stdout.split()[-2:]
    assert "/usr/sbin" in path.split(":") and umask == "0o22", done.stdout


@pytest.mark.parametrize("variables, expected", [
    ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/pib-hca"),
    ({"XDG_CACHE_HOME": "c", "HOME": "/h"}, "/h/.cache/pib-hca"),
    ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/pib-hca"),
    ({"HOME": "relative"}, f"{paths.ROOT}/.lab/cache"),
])
def test_the_cache_is_never_in_the_working_directory(monkeypatch, variables, expected):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(paths.cache()) == expected


def test_a_user_without_home_has_the_cache_in_the_checkout(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert paths.cache() == paths.RUN / "cache"


@pytest.mark.skipif(os.geteuid() != 0, reason="others make trees in a user namespace")
def test_mounts_in_a_tree_end_with_a_killed_maker(tmp_path):
    if not user_namespace.as_maker():
        pytest.skip("root cannot mount here")
    user_namespace.as_maker.cache_clear()
    script = f"mount -t tmpfs none {tmp_path}; grep -c {tmp_path} /proc/self/mounts; kill -KILL $$"
    done = subprocess.run([*user_namespace.as_maker(), "sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "1\n")
    assert str(tmp_path) not in pathlib.Path("/proc/self/mounts").read_text()


def test_a_tree_that_cannot_be_removed_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(user_namespace, "as_owner", lambda: ["sh", "-c", "echo busy >&2; exit 1", "rm"])
    (tmp_path / "rm").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "rm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ui.LabError, match="(?s)cannot be removed.*umount.*busy"):
        user_namespace.remove(tmp_path)
