# SPDX-License-Identifier: GPL-2.0-or-later
"""The manifests for KubeVirt: names agree, and the hook's script makes the domain of ./pib libvirt-xml."""

import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest
import yaml

from lab import paths
from lab.guests import libvirt_xml, vm

FOLDER = paths.ROOT / "examples" / "kubevirt"
QEMU = f"{{{libvirt_xml.NAMESPACE}}}"
FABRIC = "tcp:pib-switch:7471"
# As virt-launcher hands it over.
DOMAIN = """<domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"><name>default_pib-1</name>
<devices><emulator>/usr/libexec/qemu-kvm</emulator></devices>{}</domain>"""
LINE = '<qemu:commandline><qemu:arg value="-before"/><qemu:env name="A" value="b"/></qemu:commandline>'


def manifests(name: str) -> list[dict]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def run_hook(tmp_path: pathlib.Path, annotations: dict[str, str], line: str) -> xml.Element:
    script = tmp_path / "onDefineDomain"
    script.write_text(manifests("hook.yaml")[0]["data"]["onDefineDomain"])
    done = subprocess.run([sys.executable, script, "--vmi", json.dumps({"metadata": {"annotations": annotations}}),
                           "--domain", DOMAIN.format(line)], capture_output=True, text=True, check=True)
    return xml.fromstring(done.stdout)


@pytest.mark.parametrize("number", [1, 7])
@pytest.mark.parametrize("line", ["", LINE])
def test_the_hook_adds_the_hca_of_a_number(tmp_path, number, line):
    domain = run_hook(tmp_path, {"pib-hca/number": str(number), "pib-hca/fabric": FABRIC}, line)
    assert domain.find("name").text == "default_pib-1" and domain.find("devices/emulator") is not None
    made = domain.find(f"{QEMU}commandline")
    words = [element.get("value") for element in made.iterfind(f"{QEMU}arg")]
    assert [element.tag for element in made] == sorted(element.tag for element in made)      # arg before env
    assert words[6:] == (["-before"] if line else [])
    assert words[1].endswith(f"dir=/var/run/pib-hca/vm{number}") and ",chassis=" in words[3]
    assert {"fabric=tcp:pib-switch:7471", "tls-creds=pib-tls", *vm.default_hca(number, FABRIC).argv(0)[3].split(",")[4:]
            } <= set(words[5].split(","))
    env = {element.get("name"): element.get("value") for element in made.iterfind(f"{QEMU}env")}
    assert env == {"LD_PRELOAD": "/var/run/pib-hca/pib-hca.so"} | ({"A": "b"} if line else {})


def test_names_in_the_manifests_agree(tmp_path):
    (machine,), (hook,), (service, deployment) = map(manifests, ("vm.yaml", "hook.yaml", "switch.yaml"))
    annotations = machine["spec"]["template"]["metadata"]["annotations"]
    (sidecar,) = json.loads(annotations["hooks.kubevirt.io/hookSidecars"])
    assert sidecar["configMap"]["name"] == hook["metadata"]["name"] and sidecar["configMap"]["key"] in hook["data"]
    words = [element.get("value") for element in run_hook(tmp_path, annotations, "").iter(f"{QEMU}arg")]
    assert f"dir={sidecar['pvc']['sharedComputePath']}/vm1" in words[1]
    (port,) = service["spec"]["ports"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert annotations["pib-hca/fabric"] == f"tcp:{service['metadata']['name']}:{port['port']}"
    assert f"tls:0.0.0.0:{port['port']}" in container["command"]
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]
    text = (paths.ROOT / "docs" / "kubernetes.md").read_text()
    first = vm.default_hca(1, FABRIC)
    assert f"vm1 --guid {first.node_guid:#018x} --guid {first.port_guid:#018x}" in text
