# SPDX-License-Identifier: GPL-2.0-or-later
"""Labs over several hosts, without libvirtd: the arguments of --connect, and the files of each host."""

import argparse
import pathlib
import re
import xml.etree.ElementTree as xml

import pytest

from lab import settings
from lab.base import ui
from lab.fabric import split, topology_kinds
from lab.fabric.wanted import Wanted
from lab.guests import libvirt_xml, vm
from lab.hosts import domain, place

A, B = "qemu+ssh://a/system", "qemu+ssh://me@b:2222/system?keyfile=/k"


def settled(*words):
    parser = argparse.ArgumentParser()
    settings.add_options(parser)
    return settings.settle(parser.parse_args(words))


def test_hosts_are_known_to_each_other_by_their_uris_or_as_the_user_says():
    a, b, here, v6, *_ = place.hosts([A, B, "qemu:///system#10.0.0.1:80", "qemu+unix:///system?socket=/s#[fd00::1]",
                                      "qemu+ssh://b:2223/system"])
    assert place.host("qemu+ssh://an_alias/system").connects == "tls:an_alias:7471"
    assert (a.connects, a.listens) == ("tls:a:7471", "tls:[::]:7471")
    assert (b.uri, b.connects) == (B, "tls:b:7471")
    assert (here.uri, here.connects, here.listens) == ("qemu:///system", "tls:10.0.0.1:80", "tls:10.0.0.1:80")
    assert (v6.connects, v6.listens) == ("tls:[fd00::1]:7471", "tls:[fd00::1]:7471")


@pytest.mark.parametrize("texts, reason", [
    (["lxc:///system"], "expected the URI of a libvirtd"), (["a"], "expected the URI of a libvirtd"),
    (["qemu:///system#a b"], "expected the URI of a libvirtd"),
    (["qemu:///system#a:x"], "expected the URI of a libvirtd"), (["qemu+ssh://a/session"], "qemu\\+ssh://…/system"),
    *(([f"qemu:///system#{behind}"], "expected the URI of a libvirtd")
      for behind in ("a:0", "me@a", "a/b", "a#b", "a?b")),
    *(([f"qemu+ssh://a:{port}/system"], "expected the URI of a libvirtd") for port in ("x", "0", "99999")),
    (["qemu:///system#fd00::1"], r"#\[fd00::1\]:7471"),
    (["qemu:///system", A], "Write its address after #:  qemu:///system#10.0.0.1"), ([A, A], "named twice"),
    ([A, "qemu+ssh://root@A/system?keyfile=/k#b"], f"twice, as {re.escape(A)} and qemu\\+ssh://root@A/system")])
def test_a_bad_host_is_refused(texts, reason):
    with pytest.raises(ui.LabError, match=reason):
        place.hosts(texts)
    with pytest.raises(ui.LabError, match=reason):
        settled("--connect", ",".join(texts))


def test_options_that_guests_on_other_hosts_cannot_have_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PIB_KERNEL", raising=False)
    assert [host.uri for host in settled("--connect", f"{A},{B}").hosts] == [A, B]
    for words in (["--iommu"], ["--peer-copy"], ["--share", str(tmp_path)]):
        with pytest.raises(ui.LabError, match=f"cannot have {words[0][2:]}: leave out"):
            settled("--connect", A, *words)
    for property_ in ("peer-copy=on", "ports=2,peer-copy=yes"):
        with pytest.raises(ui.LabError, match="cannot have peer-copy: leave out"):
            settled("--connect", A, "--hca-options", property_)
    assert settled("--connect", A, "--hca-options", "peer-copy=off").hosts
    with pytest.raises(ui.LabError, match="3 hosts need as many guests:  ./pib up -n 3"):
        settled("--connect", f"{A},{B}", "--connect", "qemu+ssh://c/system")


def test_guests_take_turns_or_are_where_their_switches_are(tmp_path):
    hosts = place.hosts([A, B])
    assert [Wanted(3, hosts=hosts).host_of(number) for number in range(3)] == [0, 1, 0]
    file = tmp_path / "tree"
    file.write_text(topology_kinds.make("fat-tree", [], "4xEDR"))
    wanted = Wanted(4, hosts=hosts, fabric_file=file)
    assert wanted.parts == split.parts(wanted.net, 2)
    assert [wanted.host_of(number) for number in range(4)] == [0, 0, 1, 1]


def test_a_domain_has_files_and_fabric_of_its_host_and_a_mark_for_the_hook():
    called = place.Names.of("machine", "/directory")
    assert called == place.Names.of("machine", "/directory") != place.Names.of("machine", "/other")
    boot = vm.Boot(pathlib.Path("/v"), pathlib.Path("/i"), pathlib.Path("/d"))
    hcas = [vm.default_hca(3, "unix:/here")]
    machine = vm.Machine(3, boot, pathlib.Path("/tmp/x"), "tcg", None, hcas, vm.Size(512, 2))
    text = domain.text(machine, called)
    top = xml.fromstring(text)
    assert top.findtext("name") == f"{called.lab}-vm3" and top.get("type") == "qemu"
    assert (top.findtext("memory"), top.findtext("vcpu")) == ("512", "2")
    assert top.findtext("os/kernel") == f"/var/lib/libvirt/images/{called.lab}/vmlinuz"
    assert "lab.node=3 " in top.findtext("os/cmdline") and top.findtext("os/cmdline").endswith(" lab.lan=fabric")
    assert top.find("devices/channel/target").get("name") == "pib.ssh"
    device = [word.get("value") for word in top.iter(f"{{{libvirt_xml.NAMESPACE}}}arg")][-1]
    assert f"fabric=unix:/run/pib-switch/{called.lab}/fabric," in device
    assert f'<pib:switch xmlns:pib="urn:pib-hca:libvirt">{called.lab}</pib:switch>' in text
    assert top.findtext("metadata/{urn:pib-hca:libvirt}switch") == called.lab
