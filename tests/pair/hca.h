// SPDX-License-Identifier: GPL-2.0-or-later
// The transport of one HCA with a fake host and a fake port, and a driver for it that writes WQEs
// and reads CQEs as a provider does.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "fake_host.h"
#include "fake_port.h"
#include "memory/mpt.h"
#include "pib_hca_hw.h"
#include "queues/cq.h"
#include "queues/eq.h"
#include "strict/strict.h"
#include "transport/transport.h"
#include "wqe_encoder.h"

namespace pib::hca::test {

// A registered buffer of guest memory.
struct Buffer {
    uint64_t addr = 0;  // bus address and iova
    uint64_t bytes = 0;
    uint32_t key = 0;

    pib_hca_sge sge(uint64_t offset, uint32_t length) const {
        return {.addr = addr + offset, .length = length, .lkey = key};
    }
    pib_hca_sge all() const { return sge(0, static_cast<uint32_t>(bytes)); }
};

struct QpConfig {
    pib_hca_qp_type type = PIB_HCA_QP_RC;
    uint32_t pd = 1;
    uint8_t log_depth = 6;
    uint8_t log_sq_stride = 8;
    uint8_t log_rq_stride = 8;
    uint32_t flags = 0;
    uint8_t port = 0;  // special QPs
    std::optional<uint32_t> cqn = {};
    uint8_t log_cq_depth = 10;
    uint32_t srq = 0;   // if not 0, in place of a receive queue
    uint32_t xrcd = 0;  // domain of an XRC target
};

struct Cq {
    uint32_t cqn = 0;
    uint64_t addr = 0;
    uint8_t log_depth = 0;
    uint32_t consumer = 0;
};

// A shared receive queue as software sees it.
struct Srq {
    uint32_t srqn = 0;
    uint64_t addr = 0;
    uint8_t log_depth = 0;
    uint8_t log_stride = 0;
    uint32_t producer = 0;
    uint32_t cqn = 0;  // CQ of an XRC SRQ
};

// A QP as software sees it.
struct Qp {
    QpConfig config;
    uint32_t qpn = 0;
    uint32_t cqn = 0;
    uint64_t addr = 0;
    uint32_t sq_offset = 64;
    uint32_t rq_offset = 0;
    uint32_t sq_producer = 0;
    uint32_t rq_producer = 0;
};

// The page list of a buffer that is contiguous.
pib_hca_pages contiguous(uint64_t addr, uint64_t bytes);
// A send WQE for this QP, padded to the stride of its send queue.
std::vector<uint8_t> encode(const Qp& qp, const SendWr& wr);

// The asynchronous event queue as software reads it.
class AsyncEvents : private EqTable::Events {
  public:
    // Returns the events so far and forgets them.
    std::vector<pib_hca_eqe> events();
    bool saw_event(pib_hca_event type, uint32_t number);

  protected:
    static constexpr uint8_t kEqLogDepth = 12;

    EqTable::Events& sink() { return *this; }
    void read_from(const FakeHost& host, uint64_t ring) {
        host_ = &host;
        ring_ = ring;
    }

  private:
    void eq_fatal(uint32_t) override {}
    void interrupt_raised(const RaisedInterrupt&) override {}

    const FakeHost* host_ = nullptr;
    uint64_t ring_ = 0;
    uint32_t consumer_ = 0;
    std::vector<pib_hca_eqe> seen_;
};

class Hca : public AsyncEvents {
  public:
    // `port_count`: 1 or 2. Both ports have the LID `lid`, as in two subnets.
    explicit Hca(uint16_t lid, unsigned port_count = 1);
    ~Hca();

    Buffer make_buffer(uint64_t bytes, uint32_t access = kAllAccess, uint32_t pd = 1);
    Cq& make_cq(uint8_t log_depth);
    // With `xrcd` other than 0: an XRC SRQ, with a new CQ for its completions.
    Srq make_srq(uint8_t log_depth, uint32_t pd = 1, uint32_t xrcd = 0);
    void post_srq(Srq& srq, uint32_t id, const std::vector<pib_hca_sge>& sges);
    // Moves the queue to another buffer.
    Verdict resize_srq(Srq& srq, uint8_t log_depth);
    Verdict set_limit(const Srq& srq, uint32_t limit);
    CmdResult<Qp> try_create(const QpConfig& config);
    Qp create(const QpConfig& config = {});

    void write_send(Qp& qp, const SendWr& wr);  // WQE and producer, no doorbell
    void write_raw_send(Qp& qp, std::span<const uint8_t> wqe);
    void ring(const Qp& qp) { (void)transport.send_doorbell(kUar, qp.qpn); }
    void post(Qp& qp, const SendWr& wr) {
        write_send(qp, wr);
        ring(qp);
    }
    void post_recv(Qp& qp, const std::vector<pib_hca_sge>& sges);
    void set_sq_producer(Qp& qp, uint32_t producer);
    void set_rq_producer(Qp& qp, uint32_t producer);

    // The next CQE of a QP's CQ, if there is one.
    std::optional<pib_hca_cqe> poll(const Qp& qp) { return poll(qp.cqn); }
    std::optional<pib_hca_cqe> poll(const Srq& srq) { return poll(srq.cqn); }
    std::optional<pib_hca_cqe> poll(uint32_t cqn);
    std::vector<pib_hca_cqe> poll_all(const Qp& qp);
    pib_hca_av av_to(const Hca& peer) const;
    pib_hca_qp_state state(const Qp& qp) {
        return static_cast<pib_hca_qp_state>(transport.verbs().look_at(qp.qpn)->state);
    }
    uint64_t counter(pib_hca_counter which) const {
        return counters.total(static_cast<HcaCounter>(which));
    }

    static constexpr uint32_t kUar = 3;
    static constexpr uint32_t kAllAccess =
        PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE | PIB_HCA_ACCESS_REMOTE_READ |
        PIB_HCA_ACCESS_REMOTE_ATOMIC;

    FakeHost host;
    GuestErrors guest_errors{host};
    Refusals refusals{host, guest_errors};
    // Exists if PIB_STRICT is set, to check that the driver of these tests breaks no rule.
    std::unique_ptr<Strict> strict;
    Journal journal;
    Counters counters{.journal = &journal, .strict = strict.get()};
    EqTable eqs;
    CqTable cqs;
    SrqTable srqs;
    Mpt mpt;
    std::unique_ptr<FakePeerCopy> peer_copy;  // with PIB_BURSTS=peer-copy
    FakePort port;
    FakePort second_port;  // unused by an HCA with one port
    std::array<Port*, 2> ports;
    Transport transport;

  private:
    CmdResult<Qp> try_create_target(const QpConfig& config);

    std::deque<Cq> cqs_;
    uint32_t eqn_ = 0;
};

// Verbs, called with the input structures of their commands.
CmdResult<uint32_t> create_qp(Hca& hca, const pib_hca_create_qp& in);
Verdict modify_qp(Hca& hca, uint32_t qpn, const pib_hca_modify_qp& in);
CmdResult<pib_hca_modify_qp> query_qp(Hca& hca, uint32_t qpn);
Verdict attach_mcast(Hca& hca, uint32_t qpn, const pib_hca_mcast& in);
Verdict detach_mcast(Hca& hca, uint32_t qpn, const pib_hca_mcast& in);
pib_hca_page_fault next_page_fault(Hca& hca);

// Attributes for the MODIFY_QP commands that bring a connected QP to RTS.
struct RcAttributes {
    uint8_t path_mtu = 3;  // 1024
    uint32_t psn = 0;      // first PSN of both directions
    uint8_t timeout = 10;
    uint8_t retry_cnt = 7;
    uint8_t rnr_retry = 7;
    uint8_t min_rnr_timer = 1;
    uint8_t max_rd_atomic = 16;
    uint8_t max_dest_rd_atomic = 16;
    uint32_t access_flags = Hca::kAllAccess;
    uint16_t pkey_index = 0;
};

void to_init(Hca& hca, const Qp& qp, const RcAttributes& attr = {});
void to_rtr(Hca& hca, const Qp& qp, const pib_hca_av& av, uint32_t dest_qpn,
            const RcAttributes& attr = {});
void to_rts(Hca& hca, const Qp& qp, const RcAttributes& attr = {});
void to_state(Hca& hca, const Qp& qp, pib_hca_qp_state state);
// Brings a datagram QP from Reset to RTS.
void start_datagram(Hca& hca, const Qp& qp, uint32_t qkey, uint16_t pkey_index = 0);

}  // namespace pib::hca::test
