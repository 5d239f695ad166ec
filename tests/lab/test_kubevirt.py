# SPDX-License-Identifier: GPL-2.0-or-later
"""The manifests for KubeVirt: their fields are in the table below, names agree, and the hook's script makes the domain
of ./pib libvirt-xml."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest
import yaml

from lab.base import paths
from lab.guests import libvirt_xml, vm

FOLDER = paths.ROOT / "examples" / "kubevirt"
PAGE = paths.ROOT / "docs" / "kubernetes.md"
QEMU = f"{{{libvirt_xml.NAMESPACE}}}"
FABRIC = "tcp:pib-switch:7471"
# A domain as virt-launcher passes it to the hook.
DOMAIN = """<domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"><name>default_pib-1</name>
<memory>1048576</memory><os><type arch="x86_64" machine="q35">hvm</type></os>
<devices><emulator>/usr/libexec/qemu-kvm</emulator></devices>{}</domain>"""
LINE = '<qemu:commandline><qemu:arg value="-before"/><qemu:env name="A" value="b"/></qemu:commandline>'

# Fields of the published APIs that the manifests may use, written by hand, by the path of the object that has them:
# kubevirt.io/v1 and hookSidecars of KubeVirt 1.9, v1 and apps/v1 of Kubernetes. [] stands for the elements of a list.
META = {"metadata": {"name"}}
POD = "spec.template.spec"
APIS = {
    ("kubevirt.io/v1", "VirtualMachine"): {
        "": {"metadata", "spec"}, **META, "spec": {"runStrategy", "template"}, "spec.template": {"metadata", "spec"},
        "spec.template.metadata": {"annotations"}, POD: {"domain", "volumes"},
        f"{POD}.domain": {"machine", "memory", "devices", "cpu"}, f"{POD}.domain.machine": {"type"},
        f"{POD}.domain.memory": {"guest"}, f"{POD}.domain.devices": {"disks", "interfaces"},
        f"{POD}.domain.devices.disks[]": {"name", "disk"}, f"{POD}.domain.devices.disks[].disk": {"bus"},
        f"{POD}.volumes[]": {"name", "persistentVolumeClaim"},
        f"{POD}.volumes[].persistentVolumeClaim": {"claimName"}},
    ("v1", "ConfigMap"): {"": {"metadata", "data"}, **META},
    ("v1", "Service"): {"": {"metadata", "spec"}, **META, "spec": {"selector", "ports"},
                        "spec.ports[]": {"name", "port", "targetPort", "protocol"}},
    ("apps/v1", "Deployment"): {
        "": {"metadata", "spec"}, **META, "spec": {"replicas", "strategy", "selector", "template"},
        "spec.strategy": {"type"}, "spec.selector": {"matchLabels"}, "spec.template": {"metadata", "spec"},
        "spec.template.metadata": {"labels"},
        POD: {"automountServiceAccountToken", "securityContext", "containers", "volumes"},
        f"{POD}.securityContext": {"fsGroup"},
        f"{POD}.containers[]": {"name", "image", "command", "ports", "securityContext", "volumeMounts"},
        f"{POD}.containers[].ports[]": {"name", "containerPort"},
        f"{POD}.containers[].securityContext": {"allowPrivilegeEscalation", "readOnlyRootFilesystem", "runAsNonRoot",
                                                "runAsUser", "capabilities"},
        f"{POD}.containers[].securityContext.capabilities": {"drop"},
        f"{POD}.containers[].volumeMounts[]": {"name", "mountPath", "readOnly"},
        f"{POD}.volumes[]": {"name", "secret", "emptyDir"},
        f"{POD}.volumes[].secret": {"secretName", "defaultMode"}, f"{POD}.volumes[].emptyDir": set()}}
SIDECAR = {"": {"args", "image", "configMap", "pvc"}, "configMap": {"name", "key", "hookPath"},
           "pvc": {"name", "volumePath", "sharedComputePath"}}
# The type in which the API publishes the fields of each path. KubeVirt: types.go and schema.go of its package
# kubevirt.io/api/core/v1, and for the annotation hooks.go of kubevirt.io/kubevirt/pkg/hooks.
# Kubernetes: k8s.io/api/core/v1, k8s.io/api/apps/v1, and ObjectMeta of k8s.io/apimachinery/pkg/apis/meta/v1.
OBJECT = {"metadata": "ObjectMeta"}
TYPES = {
    ("kubevirt.io/v1", "VirtualMachine"): {
        "": "VirtualMachine", **OBJECT, "spec": "VirtualMachineSpec",
        "spec.template": "VirtualMachineInstanceTemplateSpec", "spec.template.metadata": "ObjectMeta",
        POD: "VirtualMachineInstanceSpec", f"{POD}.domain": "DomainSpec", f"{POD}.domain.machine": "Machine",
        f"{POD}.domain.memory": "Memory", f"{POD}.domain.devices": "Devices",
        f"{POD}.domain.devices.disks[]": "Disk, DiskDevice", f"{POD}.domain.devices.disks[].disk": "DiskTarget",
        f"{POD}.volumes[]": "Volume, VolumeSource",
        f"{POD}.volumes[].persistentVolumeClaim": "PersistentVolumeClaimVolumeSource"},
    ("v1", "ConfigMap"): {"": "ConfigMap", **OBJECT},
    ("v1", "Service"): {"": "Service", **OBJECT, "spec": "ServiceSpec", "spec.ports[]": "ServicePort"},
    ("apps/v1", "Deployment"): {
        "": "Deployment", **OBJECT, "spec": "DeploymentSpec", "spec.strategy": "DeploymentStrategy",
        "spec.selector": "LabelSelector", "spec.template": "PodTemplateSpec", "spec.template.metadata": "ObjectMeta",
        POD: "PodSpec", f"{POD}.securityContext": "PodSecurityContext", f"{POD}.containers[]": "Container",
        f"{POD}.containers[].ports[]": "ContainerPort",
        f"{POD}.containers[].securityContext": "SecurityContext",
        f"{POD}.containers[].securityContext.capabilities": "Capabilities",
        f"{POD}.containers[].volumeMounts[]": "VolumeMount", f"{POD}.volumes[]": "Volume, VolumeSource",
        f"{POD}.volumes[].secret": "SecretVolumeSource", f"{POD}.volumes[].emptyDir": "EmptyDirVolumeSource"}}
SIDECAR_TYPES = {"": "HookSidecar", "configMap": "ConfigMap", "pvc": "PVC"}
# Objects whose keys are the user's.
FREE = re.compile(r"\.(annotations|labels|matchLabels|selector|data)$")


def unknown(value, fields: dict[str, set[str]], path: str = "") -> list[str]:
    """Paths of fields that the API does not have."""
    if isinstance(value, list):
        return [name for element in value for name in unknown(element, fields, f"{path}[]")]
    if not isinstance(value, dict) or (FREE.search(f".{path}") and path not in fields):
        return []
    known = fields.get(path, set())
    inner = [name for key, one in value.items() for name in unknown(one, fields, f"{path}.{key}".lstrip("."))]
    return [f"{path}.{key}" for key in value if key not in known] + inner


def manifests(name: str) -> list[dict]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def call_hook(tmp_path: pathlib.Path, metadata: dict, line: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "onDefineDomain"
    script.write_text(manifests("hook.yaml")[0]["data"]["onDefineDomain"])
    return subprocess.run([sys.executable, script, "--vmi", json.dumps({"metadata": metadata}),
                           "--domain", DOMAIN.format(line)], capture_output=True, text=True, check=False)


def run_hook(tmp_path: pathlib.Path, annotations: dict[str, str], line: str) -> xml.Element:
    done = call_hook(tmp_path, {"annotations": annotations}, line)
    assert done.returncode == 0, done.stderr
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


@pytest.mark.parametrize("metadata", [
    {}, {"annotations": None}, {"annotations": {"pib-hca/fabric": FABRIC}}, {"annotations": {"pib-hca/number": "1"}},
    *({"annotations": {"pib-hca/number": number, "pib-hca/fabric": FABRIC}}
      for number in ("one", "-1", str(vm.NUMBERS)))])
def test_the_hook_says_which_annotations_it_wants(tmp_path, metadata):
    done = call_hook(tmp_path, metadata, "")
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch(f"pib-hca: annotate .* 0 to {vm.NUMBERS - 1}, and with pib-hca/fabric, such as {FABRIC}\n",
                        done.stderr)


def test_an_address_adds_no_property_of_the_device(tmp_path):
    domain = run_hook(tmp_path, {"pib-hca/number": "1", "pib-hca/fabric": "tcp:a:1,plain-tcp=on"}, "")
    words = [element.get("value") for element in domain.iter(f"{QEMU}arg")]
    assert ",fabric=tcp:a:1,,plain-tcp=on,tls-creds=" in words[5]


def test_the_fields_are_those_of_the_table():
    for file in sorted(FOLDER.glob("*.yaml")):
        for manifest in manifests(file.name):
            fields = APIS[manifest.pop("apiVersion"), manifest.pop("kind")]
            assert unknown(manifest, fields) == [], file.name
    annotations = manifests("vm.yaml")[0]["spec"]["template"]["metadata"]["annotations"]
    for sidecar in json.loads(annotations["hooks.kubevirt.io/hookSidecars"]):
        assert unknown(sidecar, SIDECAR) == [] and sidecar["args"] == ["--version", "v1alpha2"]


def test_each_object_has_a_published_type():
    assert {api: set(fields) for api, fields in APIS.items()} == {api: set(types) for api, types in TYPES.items()}
    assert SIDECAR.keys() == SIDECAR_TYPES.keys()


def test_an_unknown_field_is_noticed():
    machine = manifests("vm.yaml")[0]
    machine["spec"]["template"]["spec"]["domain"]["machine"]["typ"] = "q35"
    del machine["apiVersion"], machine["kind"]
    assert unknown(machine, APIS["kubevirt.io/v1", "VirtualMachine"]) == ["spec.template.spec.domain.machine.typ"]


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
    first = vm.default_hca(1, FABRIC)
    assert f"vm1 --guid {first.node_guid:#018x} --guid {first.port_guid:#018x}" in PAGE.read_text()


def test_the_page_names_what_a_cluster_has_to_have(tmp_path):
    """Volume claims, secrets, the image, and the id of the device for QEMU's monitor."""
    (machine,), (_, deployment) = map(manifests, ("vm.yaml", "switch.yaml"))
    pods = [deployment["spec"]["template"]["spec"], machine["spec"]["template"]["spec"]]
    annotations = machine["spec"]["template"]["metadata"]["annotations"]
    volumes = [volume for pod in pods for volume in pod["volumes"]]
    wanted = {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}
    wanted |= {sidecar["pvc"]["name"] for sidecar in json.loads(annotations["hooks.kubevirt.io/hookSidecars"])}
    wanted |= {container["image"] for container in pods[0]["containers"]} | {"Sidecar"}
    text = PAGE.read_text()
    assert len(wanted) == 3 and not {name for name in wanted if f"`{name}`" not in text}
    assert {volume["secret"]["secretName"] for volume in volumes if "secret" in volume} == set(
        re.findall(r"create secret generic (\S+)", text))
    words = [element.get("value") for element in run_hook(tmp_path, annotations, "").iter(f"{QEMU}arg")]
    (device,) = re.findall(r"pib-hca,id=([^,]+)", " ".join(words))
    assert f"default_{machine['metadata']['name']} --hmp 'device_del {device}'" in text


@pytest.mark.skipif(not shutil.which("virt-xml-validate"), reason="needs virt-xml-validate of libvirt-clients")
@pytest.mark.parametrize("line", ["", LINE])
def test_the_domain_fits_libvirts_schema(tmp_path, line):
    domain = run_hook(tmp_path, {"pib-hca/number": "1", "pib-hca/fabric": FABRIC}, line)
    (tmp_path / "domain.xml").write_text(xml.tostring(domain, encoding="unicode"))
    done = subprocess.run(["virt-xml-validate", tmp_path / "domain.xml", "domain"], check=False, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
