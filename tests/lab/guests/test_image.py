# SPDX-License-Identifier: GPL-2.0-or-later
"""Guest images, their initramfs and kernels, and the emulated host."""

import subprocess

import pytest

from lab import paths, ui, up
from lab.build import debian, preflight
from lab.fabric.wanted import Wanted
from lab.guests import debug_kernel, extra_packages, guest_kernel, image, initramfs, nested


def test_guest_modules_are_loaded_after_their_dependencies(tmp_path):
    (tmp_path / "modules.dep").write_text(
        "k/ext4.ko: k/jbd2.ko k/crc16.ko\nk/jbd2.ko: \nk/crc16.ko:\n"
        "k/virtio-blk.ko: k/virtio.ko k/virtio_ring.ko\nk/virtio.ko: k/virtio_ring.ko\n"
        "k/virtio_ring.ko:\n")
    order = initramfs.module_order(tmp_path, ("virtio_blk", "ext4", "builtin"))
    assert order == ["k/virtio_ring.ko", "k/virtio.ko", "k/virtio-blk.ko", "k/crc16.ko",
                     "k/jbd2.ko", "k/ext4.ko"]


def test_an_option_that_the_kernel_drops_is_an_error():
    wanted = "# why\nCONFIG_A=y\nCONFIG_B=\"x\"\n"
    assert debug_kernel.missing(wanted, "CONFIG_B=\"x\"\n# CONFIG_A is not set\n") == ["CONFIG_A=y"]
    assert not debug_kernel.missing(wanted, "CONFIG_A=y\nCONFIG_B=\"x\"\nCONFIG_C=y\n")


def test_a_new_tree_comes_through_the_proxy_of_this_machines_apt(monkeypatch, tmp_path):
    """Debian's installer writes a proxy into /etc/apt/apt.conf; mmdebstrap reads that file of the new tree only."""
    (tmp_path / "apt-config").write_text("""#!/bin/sh
cat <<'EOF'
Acquire "";
Acquire::http "";
Acquire::http::Proxy "http://proxy:3128/";
Acquire::http::proxy::mirror.lan "DIRECT";
Acquire::https::Proxy "";
Acquire::Languages "none";
EOF
""")
    (tmp_path / "apt-config").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    ran = []
    monkeypatch.setattr(ui, "run", lambda _title, argv, _log: ran.extend(argv))
    image.bootstrap("making a tree", ["a"], tmp_path / "tree", [], "trixie", debian.Archive(tmp_path / "apt", []))
    assert [word for word in ran if "::proxy" in str(word).lower()] == [
        '--aptopt=Acquire::http::Proxy "http://proxy:3128/"', '--aptopt=Acquire::http::proxy::mirror.lan "DIRECT"']


def test_a_new_tree_comes_from_a_mirror_with_a_password_and_a_key_of_its_own(monkeypatch, tmp_path):
    """mmdebstrap reads the passwords of the new tree only. Later, apt in the tree needs the key."""
    monkeypatch.setattr(debian, "keyring", lambda _uri: "/etc/apt/keyrings/own.gpg")
    monkeypatch.setattr(debian, "passwords", lambda: ['Dir::Etc::netrc "/etc/apt/auth.conf"'])
    ran = []
    monkeypatch.setattr(ui, "run", lambda _title, argv, _log: ran.extend(argv))
    lists = debian.Archive(tmp_path / "apt", [debian.Suite("http://mirror", "trixie", "Debian")], ("deb",))
    image.bootstrap("making a tree", ["a"], tmp_path / "tree", [], "trixie", lists)
    assert '--aptopt=Dir::Etc::netrc "/etc/apt/auth.conf"' in ran
    assert '--setup-hook=install -D -m 644 /etc/apt/keyrings/own.gpg "$1"/etc/apt/keyrings/own.gpg' in ran
    assert ran[-1] == "deb [signed-by=/etc/apt/keyrings/own.gpg] http://mirror trixie main"


def test_an_unknown_guest_release_is_refused(monkeypatch):
    monkeypatch.setenv(image.VARIABLE, "woody")
    with pytest.raises(ui.LabError, match="bookworm"):
        image.directory()


def test_the_space_for_missing_images_is_computed_before_they_are_made(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    base = image.directory()
    assert list(guest_kernel.missing().values()) == [5]
    assert list(guest_kernel.missing(("fio",)).values()) == [5, 3]
    base.mkdir(parents=True)
    (base / "identity").write_text("packages")
    assert guest_kernel.missing() == {} and list(guest_kernel.missing(("fio",)).values()) == [3]
    assert guest_kernel.needed(("fio",), builds=False) == preflight.Needed(3)   # no tree for compilers is made
    extra_packages.directory(base, ("fio",)).mkdir()
    assert guest_kernel.missing(("fio",)) == {}
    monkeypatch.setenv(guest_kernel.VARIABLE, "lockdep")
    assert list(guest_kernel.missing(("fio",)).values()) == [8, 3]
    made = debug_kernel.directory(base, "lockdep")
    made.mkdir()
    (made / "identity").write_text("packages and kernel")
    assert guest_kernel.missing() == {} and list(guest_kernel.missing(("fio",)).values()) == [3]


@pytest.mark.parametrize("wanted, needed", [
    (Wanted(1), preflight.Needed(5, compiles=True)), (Wanted(1, packages=("fio",)), preflight.Needed(8, compiles=True)),
    (Wanted(1, image_file=paths.ROOT / "README.md"), preflight.Needed(5, run=0.5, compiles=True))])
def test_up_checks_the_space_of_its_options_before_it_builds(lab, monkeypatch, tmp_path, wanted, needed):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    seen = []

    def machine(**words):
        seen.append(words["needed"])
        raise ui.LabError("too little space")
    monkeypatch.setattr(up, "machine", machine)
    with pytest.raises(ui.LabError, match="too little space"):
        up.boot(lab, wanted)
    assert seen == [needed]


def test_each_release_has_an_image_of_its_own(monkeypatch):
    names = set()
    for release in image.RELEASES:
        monkeypatch.setenv(image.VARIABLE, release)
        names.add(image.directory())
    assert len(names) == len(image.RELEASES)


def test_an_unknown_guest_kernel_is_refused(monkeypatch):
    monkeypatch.setenv(guest_kernel.VARIABLE, "best")
    with pytest.raises(ui.LabError, match="lockdep"):
        guest_kernel.image()


@pytest.mark.parametrize("kind", debug_kernel.KINDS)
@pytest.mark.parametrize("release", image.RELEASES[1:])
def test_a_kernel_that_the_release_cannot_have_is_refused_before_anything_is_made(monkeypatch, kind, release):
    monkeypatch.setenv(guest_kernel.VARIABLE, kind)
    monkeypatch.setenv(image.VARIABLE, release)
    said = f"{kind} kernel .* these are of {release}. Choose --guest trixie .*PIB_KERNEL=debian"
    for function in (guest_kernel.needed, guest_kernel.written, guest_kernel.missing, guest_kernel.image):
        with pytest.raises(ui.LabError, match=said):
            function()


def test_an_emulated_host_runs_the_same_command(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k 'a b'")
    script = tmp_path / "command"
    script.write_text(nested.command(["sh", "-c", 'echo "$PIB_ACCEL|$PYTEST_ADDOPTS|$PWD|$1"', "sh", "x y"]))
    done = subprocess.run(["sh", script], capture_output=True, text=True, check=True, env={})
    assert done.stdout == f"kvm|-k 'a b'|{paths.ROOT}|x y\n"
