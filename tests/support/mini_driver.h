// SPDX-License-Identifier: GPL-2.0-or-later
// A driver and provider in miniature: brings a device up and uses it through registers, rings and
// doorbells in the fake host's RAM, as a guest does. A refusal that a test does not ask for throws.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "device.h"
#include "fake_host.h"

namespace pib::hca::test {

// Pages of guest RAM that do not follow each other, seen as one range; and their page list.
class GuestMemory {
  public:
    GuestMemory() = default;
    GuestMemory(FakeHost& host, uint64_t bytes);

    pib_hca_pages list() const { return list_; }
    uint64_t bytes() const { return pages_.size() * FakeHost::kPage; }
    uint64_t page(size_t index) const { return pages_[index]; }  // bus address
    size_t page_count() const { return pages_.size(); }

    void read(uint64_t offset, std::span<uint8_t> to) const;
    void write(uint64_t offset, std::span<const uint8_t> from);
    template <typename T>
    T peek(uint64_t offset) const {
        T value;
        read(offset, {reinterpret_cast<uint8_t*>(&value), sizeof value});
        return value;
    }
    template <typename T>
    void poke(uint64_t offset, const T& value) {
        write(offset, {reinterpret_cast<const uint8_t*>(&value), sizeof value});
    }

  private:
    FakeHost* host_ = nullptr;
    std::vector<uint64_t> pages_;
    pib_hca_pages list_{};
};

struct CommandOutcome {
    uint8_t status = 0xff;  // PIB_HCA_CMD_STATUS_*; 0xff: no completion came
    uint32_t result = 0;
    uint32_t out_length = 0;
    bool ok() const { return status == PIB_HCA_CMD_STATUS_OK; }
};

struct MiniEq {
    uint32_t eqn = 0;
    GuestMemory memory;
    uint32_t log_depth = 0;
    uint32_t consumer = 0;
};

struct MiniCq {
    uint32_t cqn = 0;
    uint32_t uar = 0;
    GuestMemory memory;
    uint32_t log_depth = 0;
    uint32_t consumer = 0;
};

struct MiniMr {
    uint32_t key = 0;
    uint64_t addr = 0;  // address of the first byte in WQEs
    GuestMemory memory;
};

struct QpShape {
    pib_hca_qp_type type = PIB_HCA_QP_RC;
    uint32_t pd = 0;
    uint32_t send_cq = 0;
    uint32_t recv_cq = 0;
    uint32_t uar = 0;
    uint32_t flags = 0;
    uint8_t port = 0;  // SMI and GSI
    uint8_t log_sq_depth = 4;
    uint8_t log_rq_depth = 4;
    uint8_t log_sq_stride = 8;
    uint8_t log_rq_stride = 7;
};

struct MiniQp {
    uint32_t qpn = 0;
    QpShape shape;
    GuestMemory memory;
    uint32_t sq_offset = 0;
    uint32_t rq_offset = 0;
    uint32_t sq_producer = 0;
    uint32_t rq_producer = 0;
};

// A work request; which fields count depends on the opcode and the QP's type.
struct SendRequest {
    pib_hca_wqe_opcode opcode = PIB_HCA_WQE_SEND;
    uint8_t flags = PIB_HCA_WQE_SIGNALED;
    uint32_t imm_data = 0;  // as it lies in memory
    std::vector<pib_hca_sge> sges;
    std::vector<uint8_t> inline_data;  // instead of SGEs, with PIB_HCA_WQE_INLINE
    uint64_t remote_addr = 0;
    uint32_t rkey = 0;
    uint64_t swap_or_add = 0;
    uint64_t compare = 0;
    pib_hca_av av{};  // UD
    uint32_t dest_qpn = 0;
    uint32_t qkey = 0;
    uint16_t pkey_index = 0;
};

// Attributes that connect an RC QP to its peer.
struct RcPath {
    pib_hca_av av{};
    uint32_t dest_qpn = 0;
    uint32_t rq_psn = 0;
    uint32_t sq_psn = 0;
    uint8_t path_mtu = 3;  // 1024
    uint8_t port = 1;
    uint8_t timeout = 10;
    uint8_t retry_cnt = 7;
    uint8_t rnr_retry = 7;
    uint8_t min_rnr_timer = 1;
    uint8_t max_rd_atomic = 4;
    uint8_t max_dest_rd_atomic = 4;
    uint32_t access = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE |
                      PIB_HCA_ACCESS_REMOTE_READ | PIB_HCA_ACCESS_REMOTE_ATOMIC;
};

class MiniDriver {
  public:
    MiniDriver(FakeHost& host, Device& device) : host_(host), device_(device) {}

    FakeHost& host() { return host_; }
    Device& device() { return device_; }

    // ---- registers and doorbells
    uint32_t read32(uint64_t reg) { return static_cast<uint32_t>(read(reg, 4)); }
    uint64_t read64(uint64_t reg) { return read(reg, 8); }
    void write32(uint64_t reg, uint32_t value) { write(reg, value, 4); }
    void write64(uint64_t reg, uint64_t value) { write(reg, value, 8); }
    uint64_t read(uint64_t reg, unsigned size) {
        return device_.mmio_read(PIB_HCA_BAR_REGS, reg, size);
    }
    void write(uint64_t reg, uint64_t value, unsigned size) {
        device_.mmio_write(PIB_HCA_BAR_REGS, reg, value, size);
    }
    void ring(uint32_t uar, uint32_t doorbell, uint64_t value, unsigned size = 4) {
        device_.mmio_write(PIB_HCA_BAR_UAR, uint64_t{uar} * PIB_HCA_UAR_PAGE_SIZE + doorbell, value,
                           size);
    }

    // Gives the device the turns it asks for, at most `turns`; true when it wants no more.
    bool pump(unsigned turns = 1000);

    // ---- commands
    // Fresh rings, then ENABLE; false when the device refuses.
    bool enable(uint32_t log_depth = 4);
    // Writes one entry and rings for it. `entry.id` is chosen here.
    CommandOutcome submit(pib_hca_cmd entry);
    // Puts an entry in the ring without a doorbell; returns its id.
    uint16_t enqueue(pib_hca_cmd entry);
    void ring_commands() { write32(PIB_HCA_REG_CMDQ_DOORBELL, cmd_producer_); }
    // The next completion, or status 0xff when there is none.
    CommandOutcome reap();
    uint64_t cmdq_base() const { return cmd_ring_; }
    uint64_t cmdq_cpl_base() const { return cpl_ring_; }

    CommandOutcome command(pib_hca_cmd_opcode opcode, uint32_t object = 0);
    template <typename In>
    CommandOutcome command_in(pib_hca_cmd_opcode opcode, uint32_t object, const In& in) {
        host_.poke(in_buffer_, in);
        return submit(make_entry(opcode, object, sizeof in, 0));
    }
    template <typename Out>
    CommandOutcome command_out(pib_hca_cmd_opcode opcode, uint32_t object, Out& out) {
        const CommandOutcome outcome = submit(make_entry(opcode, object, 0, sizeof out));
        out = host_.peek<Out>(out_buffer_);
        return outcome;
    }
    template <typename In, typename Out>
    CommandOutcome command_in_out(pib_hca_cmd_opcode opcode, uint32_t object, const In& in,
                                  Out& out) {
        host_.poke(in_buffer_, in);
        const CommandOutcome outcome = submit(make_entry(opcode, object, sizeof in, sizeof out));
        out = host_.peek<Out>(out_buffer_);
        return outcome;
    }
    // An entry that points to the driver's own input and output buffers.
    pib_hca_cmd make_entry(uint16_t opcode, uint32_t object, size_t in_length,
                           size_t out_length) const;
    uint64_t in_buffer() const { return in_buffer_; }
    uint64_t out_buffer() const { return out_buffer_; }

    // ---- objects
    uint32_t alloc_pd() { return must(command(PIB_HCA_CMD_ALLOC_PD), "ALLOC_PD"); }
    uint32_t alloc_uar() { return must(command(PIB_HCA_CMD_ALLOC_UAR), "ALLOC_UAR"); }
    MiniEq create_eq(uint32_t vector, bool async = false, uint8_t log_depth = 6);
    MiniCq create_cq(uint32_t eqn, uint8_t log_depth = 6, uint32_t uar = 0);
    // Fresh memory of that many bytes, from `page_offset` on in its first page.
    MiniMr create_mr(uint32_t pd, uint64_t bytes, uint32_t access, uint32_t page_offset = 0);
    MiniQp create_qp(const QpShape& shape);
    void destroy(pib_hca_cmd_opcode opcode, uint32_t object) {
        must(command(opcode, object), "destroy");
    }

    // ---- events and completions
    // Arms, as the driver's interrupt handler does when it has drained the queue.
    void arm(const MiniEq& eq) { eq_doorbell(eq, true); }
    void eq_doorbell(const MiniEq& eq, bool arm);
    std::optional<pib_hca_eqe> poll(MiniEq& eq);  // and tells the device
    void arm(const MiniCq& cq, bool solicited_only = false);
    std::optional<pib_hca_cqe> poll(MiniCq& cq);
    // Polls until a completion is there, giving the device turns; throws when none comes.
    pib_hca_cqe wait(MiniCq& cq);

    // ---- queue pairs
    CommandOutcome modify(const MiniQp& qp, const pib_hca_modify_qp& attributes) {
        return command_in(PIB_HCA_CMD_MODIFY_QP, qp.qpn, attributes);
    }
    pib_hca_modify_qp query(const MiniQp& qp);
    // Reset to RTS; a datagram QP without a peer, an RC QP with one.
    void connect_rc(const MiniQp& qp, const RcPath& path);
    void connect_ud(const MiniQp& qp, uint8_t port, uint32_t qkey, uint16_t pkey_index = 0);

    // Writes the WQE and moves the producer; the doorbell is rung unless `quiet`.
    void post_send(MiniQp& qp, const SendRequest& request, bool quiet = false);
    void post_send_bytes(MiniQp& qp, std::span<const uint8_t> wqe, bool quiet = false);
    void post_recv(MiniQp& qp, std::span<const pib_hca_sge> sges);
    void ring_send(const MiniQp& qp) { ring(qp.shape.uar, PIB_HCA_UAR_SEND, qp.qpn); }
    static std::vector<uint8_t> encode(const MiniQp& qp, const SendRequest& request);
    static pib_hca_sge sge(const MiniMr& mr, uint64_t offset, uint32_t length) {
        return {mr.addr + offset, length, mr.key};
    }

    static uint32_t must(const CommandOutcome& outcome, const char* what) {
        if (!outcome.ok()) {
            throw std::runtime_error(std::string(what) + " was refused with status " +
                                     std::to_string(outcome.status));
        }
        return outcome.result;
    }

  private:
    FakeHost& host_;
    Device& device_;
    uint64_t cmd_ring_ = 0;
    uint64_t cpl_ring_ = 0;
    uint64_t in_buffer_ = 0;
    uint64_t out_buffer_ = 0;
    uint32_t cmd_log_depth_ = 0;
    uint32_t cmd_producer_ = 0;
    uint32_t cmd_consumer_ = 0;
    uint16_t next_id_ = 1;
};

}  // namespace pib::hca::test
