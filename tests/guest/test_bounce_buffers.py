# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests whose kernel copies each DMA through bounce buffers (swiotlb=force). Processes and device would use different
memory, so the driver refuses memory of processes; the kernel's own use works."""
import pytest

from lab.guests import vm
from labs import booted
from rdma import DEVICE, PATIENCE_S, sh, wait_active

pytestmark = pytest.mark.nightly
ADDRESS = "10.79.0.{}"


@pytest.fixture(scope="module", name="bouncing")
def guests_with_bounce_buffers():
    with pytest.MonkeyPatch.context() as patch:
        line = vm.Machine.line
        patch.setattr(vm.Machine, "line", lambda machine: f"{line(machine)} swiotlb=force")
        # Driver and device would use different pages of doorbells, so the driver sets none up.
        with booted("test-bounce", 2, hca="doorbells=eventfd") as running:
            yield [running.node(name) for name in ("vm0", "vm1")]


def test_memory_of_processes_is_refused_with_the_reason(bouncing):
    node = bouncing[1]
    assert "swiotlb=force" in sh(node, "cat /proc/cmdline")
    code, out, err = sh(node, f"timeout 60 ibv_rc_pingpong -d {DEVICE}", check=False)
    assert code not in (0, 124), out + err      # 124: it has waited for a client
    assert "Couldn't" in err, err
    assert "memory of processes refused: DMA needs bounce buffers" in sh(node, "dmesg")


def test_the_kernels_own_use_works(bouncing):
    """The subnet manager has sent MADs, and IPoIB sends datagrams; both have buffers of the kernel."""
    wait_active(*bouncing)
    for number, node in enumerate(bouncing, 1):
        sh(node, f"ip addr add {ADDRESS.format(number)}/24 dev ib0; ip link set ib0 up")
    address = ADDRESS.format(1)
    sh(bouncing[1], f"timeout {PATIENCE_S} sh -c 'until ping -c 1 -W 1 {address} >/dev/null; do sleep 0.3; done'")
    assert " 0% packet loss" in sh(bouncing[1], f"ping -c 5 -i 0.2 -W 20 -s 1400 {address}")
    assert "NodeDescription" in sh(bouncing[1], "saquery")
