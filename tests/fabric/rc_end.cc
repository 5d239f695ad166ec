// SPDX-License-Identifier: GPL-2.0-or-later
#include "rc_end.h"

namespace pib::test {

using hca::test::MiniDriver;
using hca::test::MiniMr;
using hca::test::RcPath;

namespace {

constexpr uint32_t kAccess = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE |
                             PIB_HCA_ACCESS_REMOTE_READ | PIB_HCA_ACCESS_REMOTE_ATOMIC;

}  // namespace

RcEnd::RcEnd(Guest& its_guest, uint64_t bytes) : guest(its_guest) {
    MiniDriver& driver = guest.driver;
    mr = driver.create_mr(guest.pd, bytes, kAccess);
    eq = driver.create_eq(3);
    cq = driver.create_cq(eq.eqn, 8);
    hca::test::QpShape shape;
    shape.pd = guest.pd;
    shape.send_cq = shape.recv_cq = cq.cqn;
    shape.log_sq_depth = shape.log_rq_depth = 5;
    qp = driver.create_qp(shape);
}

void RcEnd::connect(const RcEnd& to, uint16_t dlid, RcPath path) const {
    path.av.dlid = dlid;
    path.dest_qpn = to.qp.qpn;
    guest.driver.connect_rc(qp, path);
}

void RcEnds::connect(const MiniSm& sm, const RcPath& path) const {
    a.connect(b, sm.lid_of(1), path);
    b.connect(a, sm.lid_of(0), path);
}

ConnectedSubnet::ConnectedSubnet(uint64_t bytes, const RcPath& path)
    : ends(subnet.guest(0), subnet.guest(1), bytes) {
    sm.sweep();
    ends.connect(sm, path);
}

hca::test::SendWr remote_request(pib_hca_wqe_opcode opcode, const MiniMr& local,
                                 const MiniMr& remote, uint32_t bytes) {
    hca::test::SendWr request;
    request.opcode = opcode;
    request.sges = {MiniDriver::sge(local, 0, bytes)};
    request.remote_addr = remote.addr;
    request.rkey = remote.key;
    return request;
}

}  // namespace pib::test
