// SPDX-License-Identifier: GPL-2.0-or-later
// Two devices at which gdb looks. The first, at a switch, has sent requests and waits for the time
// of the next paced packet. The second is adversarial: its link will go down, and doorbells, events
// and interrupts are late. Prints what gdb should find, and waits until its input ends.
#include <sys/prctl.h>

#include <cstdio>
#include <stdexcept>

#include "bench.h"
#include "pib_hca_core.h"
#include "rc_end.h"

using namespace pib;
using namespace pib::hca::test;
using namespace pib::test;

// gdb_test.py reads these. The C interface is linked for its debug information.
pib::hca::Device* watched[2];
void (*volatile linked)(PibHcaConfig*) = pib_hca_config_init;

namespace {

constexpr uint32_t kBytes = 1u << 20;
constexpr uint8_t kSlowRate = 2;  // 2.5 Gb/s

// Two WRITEs that complete, one that is paced, and one that has no doorbell; three receives.
void send(RcEnds& ends, Subnet& subnet) {
    for (unsigned i = 0; i < 2; ++i) {
        ends.a.guest.driver.post_send(
            ends.a.qp, remote_request(PIB_HCA_WQE_RDMA_WRITE, ends.a.mr, ends.b.mr, 64));
        (void)subnet.run_until([&] { return ends.a.guest.driver.poll(ends.a.cq).has_value(); });
    }
    const pib_hca_sge sge = MiniDriver::sge(ends.a.mr, 0, 4096);
    for (unsigned i = 0; i < 3; ++i) {
        ends.a.guest.driver.post_recv(ends.a.qp, {&sge, 1});
    }
    ends.a.guest.driver.post_send(
        ends.a.qp, remote_request(PIB_HCA_WQE_RDMA_WRITE, ends.a.mr, ends.b.mr, kBytes));
    subnet.settle();
    ends.a.guest.driver.post_send(
        ends.a.qp, remote_request(PIB_HCA_WQE_RDMA_READ, ends.a.mr, ends.b.mr, 8), true);
}

hca::Config adversary() {
    hca::Config config = bench_config();
    config.shadow_doorbells = true;
    config.knobs.adversary = hca::AdversaryPlan::parse("5:interrupts+events+fetches+ports").value();
    config.knobs.strict = hca::Strictness::kOn;
    return config;
}

// Rings doorbells and raises interrupts until some of them are late, and leaves EQEs in the async
// EQ. The QP's number differs from that of the first device's QP.
void be_late(Bench& bench) {
    MiniDriver& driver = bench.driver;
    bench.device->reset(false);
    (void)driver.read32(PIB_HCA_REG_STATUS);
    if (!driver.enable()) {
        throw std::runtime_error("the device refused to be enabled");
    }
    driver.arm(driver.create_eq(0, true));
    const pib_hca_set_shadow_page page{.addr = bench.host.alloc(FakeHost::kPage)};
    MiniDriver::must(driver.command_in(PIB_HCA_CMD_SET_SHADOW_PAGE, 0, page), "SET_SHADOW_PAGE");
    const MiniCq cq = driver.create_cq(driver.create_eq(1).eqn);
    const QpShape shape{
        .type = PIB_HCA_QP_UD, .pd = driver.alloc_pd(), .send_cq = cq.cqn, .recv_cq = cq.cqn};
    (void)driver.create_qp(shape);
    MiniQp qp = driver.create_qp(shape);
    driver.connect_ud(qp, 1, 0);
    for (uint32_t i = 0; i < 20; ++i) {
        driver.ring_send(qp);
        driver.ring(0, PIB_HCA_UAR_RECV, qp.qpn);
        driver.ring(0, PIB_HCA_UAR_KICK, 0);
        driver.write32(PIB_HCA_REG_TEST_IRQ, 2 + i % 2);
    }
}

}  // namespace

int main() {
    Subnet subnet(2);
    MiniSm sm(subnet, subnet.guest(0));
    RcEnds ends(subnet.guest(0), subnet.guest(1), kBytes);
    sm.sweep();
    RcPath path;
    path.timeout = 20;
    path.av.static_rate = kSlowRate;
    ends.connect(sm, path);
    send(ends, subnet);
    Bench late(adversary());
    be_late(late);
    watched[0] = subnet.guest(0).device.get();
    watched[1] = late.device.get();

    std::printf("{\"qpn\": %u, \"cqn\": %u, \"eqn\": %u, \"key\": %u, \"timers\": [%llu, %llu]}\n",
                ends.a.qp.qpn, ends.a.cq.cqn, ends.a.guest.async_eq.eqn, ends.a.mr.key,
                static_cast<unsigned long long>(subnet.guest(0).host.timer_deadline_ns),
                static_cast<unsigned long long>(late.host.timer_deadline_ns));
    std::fflush(stdout);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // gdb is not a parent of this process
    while (std::getchar() != EOF) {
    }
    return 0;
}
