// SPDX-License-Identifier: GPL-2.0-or-later
// One trial: a device in this process whose port 1 is linked to a Stranger, the QP under test, and
// everything that can be observed afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench.h"
#include "mad.h"
#include "mini_driver.h"
#include "seen.h"
#include "stranger.h"

namespace pib::conformance {

// Attributes of the connection under trial; PSNs in checks count from `psn` and `sq_psn`.
struct Connection {
    pib_hca_qp_type type = PIB_HCA_QP_RC;
    uint32_t psn = 0x100;
    uint32_t sq_psn = 0x500;
    uint8_t path_mtu = 3;  // 1024
    uint32_t access =
        PIB_HCA_ACCESS_REMOTE_WRITE | PIB_HCA_ACCESS_REMOTE_READ | PIB_HCA_ACCESS_REMOTE_ATOMIC;
    uint8_t reads = 4;  // as responder and as requester
    unsigned receives = 4;
    uint32_t receive_bytes = 0x1000;
    uint8_t timeout = 0;  // none
    uint8_t retry_cnt = 3;
    uint8_t rnr_retry = 3;
    bool grh = false;
    uint32_t qkey = 0x11223344;  // for a datagram QP
    uint32_t flags = 0;          // flags of CREATE_QP
};

class Trial {
  public:
    static constexpr uint16_t kLid = 0x10;
    static constexpr uint16_t kStrangerLid = 2;
    static constexpr uint32_t kStrangerQp = 0x123456;
    static constexpr uint32_t kMtu = 1024;
    // The region: zeros at its start, for receives and WRITEs; from kPattern on each word contains
    // its offset, for READs and for messages of the device.
    static constexpr uint64_t kPattern = Witness::kPattern;
    static constexpr uint64_t kRegionBytes = 0xc000;

    Trial();

    // ---- stimuli
    void bring_up();  // gives the port a LID, and makes it Active
    void connect(const Connection& connection = {});
    // Posts a receive at the next place of the region.
    void post_receive(uint32_t bytes);
    void post_send(const hca::test::SendWr& request);
    // Posts a request of the device with `bytes` bytes, from or to the pattern.
    void post(pib_hca_wqe_opcode opcode, uint32_t bytes);
    void set_state(pib_hca_qp_state state);

    // ---- packets of the stranger
    using Change = std::function<void(Packet&)>;
    // A request to the QP. `psn` counts from the first expected one; `bytes`: of payload. RETH and
    // AtomicETH name the region's start, for a READ the pattern's, with `bytes` as DMALen.
    Packet request(uint8_t opcode, uint32_t psn, uint32_t bytes, const Change& change = {});
    // A response to the device's request; `psn` counts from the device's first PSN.
    Packet answer(uint8_t opcode, uint32_t psn, uint8_t syndrome, uint32_t msn,
                  const Change& change = {});
    void put(const Packet& packet) { put_bytes(write(packet)); }
    void put_bytes(const Bytes& bytes);
    void put_frame(const Frame& frame);
    void send(uint8_t opcode, uint32_t psn, uint32_t bytes, const Change& change = {}) {
        put(request(opcode, psn, bytes, change));
    }
    void reply(uint8_t opcode, uint32_t psn, uint8_t syndrome, uint32_t msn,
               const Change& change = {}) {
        put(answer(opcode, psn, syndrome, msn, change));
    }
    Bytes payload(uint32_t bytes) { return witness.payload(bytes); }
    // Moves the clock past the timers that are due within `ns`.
    void wait(uint64_t ns);
    // Sends a MAD and returns the answer's 256 bytes; empty: none came.
    Bytes ask(const Packet& mad);
    // Sets PortInfo to its present value, which `change` has changed.
    void set_port_info(const std::function<void(Bytes&)>& change);

    // ---- observations
    // Text about all events since the last call; "nothing" if there were none.
    std::string seen() {
        settle();
        return witness.seen(qp, {.answered = connection.psn, .sent = connection.sq_psn});
    }
    // Adds a text to the next seen().
    void note(const std::string& text) { witness.note(text); }
    uint64_t word(uint64_t offset) { return region.memory.peek<uint64_t>(offset); }
    void set_word(uint64_t offset, uint64_t value);

    hca::test::ReadyBench bench;
    Stranger stranger;
    hca::test::MiniMr region;
    Witness witness{bench, stranger, region};
    hca::test::MiniQp qp;
    Connection connection;
    uint32_t srqn = 0;  // the SRQ that XRC requests name
    uint32_t xrcd = 0;  // the XRC target's domain

    // Carries frames both ways until none is left.
    void settle();

  private:
    uint64_t next_receive_ = 0;
};

}  // namespace pib::conformance
