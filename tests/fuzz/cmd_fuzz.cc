// SPDX-License-Identifier: GPL-2.0-or-later
// All input of a guest except work requests: register and doorbell accesses and commands, whose
// valid structures are then corrupted. An input is a program of one-byte steps with operands.
// Object numbers come from objects that earlier steps created, so that programs reach deep states.
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <memory>

#include "bench.h"
#include "fuzz_target.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace pib::fuzz {

namespace {

constexpr size_t kMaxSteps = 400;
constexpr size_t kMaxInput = 272;

bool creates(uint16_t opcode) {
    return opcode == PIB_HCA_CMD_ALLOC_UAR || opcode == PIB_HCA_CMD_ALLOC_PD ||
           opcode == PIB_HCA_CMD_CREATE_MR || opcode == PIB_HCA_CMD_ALLOC_MW ||
           opcode == PIB_HCA_CMD_CREATE_EQ || opcode == PIB_HCA_CMD_CREATE_CQ ||
           opcode == PIB_HCA_CMD_CREATE_QP || opcode == PIB_HCA_CMD_ALLOC_XRCD ||
           opcode == PIB_HCA_CMD_CREATE_SRQ;
}

class Program {
  public:
    explicit Program(std::span<const uint8_t> bytes) : in_(bytes), memory_(bench_.host, 1 << 17) {
        bench_.driver.enable(2);
    }

    void run() {
        for (size_t i = 0; i < kMaxSteps && !in_.empty(); ++i) {
            step(in_.byte());
        }
        finish();
    }

  private:
    uint64_t number(unsigned bytes) {
        uint64_t value = 0;
        const auto raw = in_.take(bytes);
        std::memcpy(&value, raw.data(), raw.size());
        return value;
    }
    // An object's number: mostly of an object that exists or existed.
    uint32_t object() {
        const uint8_t pick = in_.byte();
        return pick == 0xff || created_.empty() ? static_cast<uint32_t>(number(4))
                                                : created_[pick % created_.size()];
    }

    void step(uint8_t what) {
        switch (what % 12) {
            case 0:
                write_register();
                break;
            case 1:
                ring();
                break;
            case 2:
                bench_.driver.pump(4);
                break;
            case 3:
                fault(in_.byte());
                break;
            case 4:
                bench_.host.clock_ns += number(4);
                bench_.device->timer();
                break;
            case 5:
                bench_.device->reset((in_.byte() & 1) != 0);
                bench_.driver.enable(2);
                break;
            case 6:
                drain();
                break;
            default:
                command(what);
                break;
        }
    }

    void write_register() {
        const auto offset = number(2);
        const unsigned size = 1u << in_.byte() % 4;
        bench_.driver.read(offset % 0x60, size);
        bench_.driver.write(offset % 0x60, number(8), size);
        if ((bench_.driver.read32(PIB_HCA_REG_CONTROL) & PIB_HCA_CONTROL_ENABLE) == 0) {
            bench_.driver.enable(2);
        }
    }

    void ring() {
        static constexpr uint32_t kDoorbells[] = {PIB_HCA_UAR_SEND,   PIB_HCA_UAR_RECV,
                                                  PIB_HCA_UAR_CQ_ARM, PIB_HCA_UAR_EQ,
                                                  PIB_HCA_UAR_CLOCK,  PIB_HCA_UAR_KICK};
        const uint8_t which = in_.byte();
        const uint64_t value = uint64_t{object()} | number(1) << 24 | number(4) << 32;
        bench_.driver.ring(in_.byte() % 4, kDoorbells[which % std::size(kDoorbells)], value,
                           (which & 0x80) != 0 ? 4 : 8);
    }

    void fault(uint8_t kind) {
        FakeHost& host = bench_.host;
        switch (kind % 4) {
            case 0:
                host.heal();
                host.bus_master = true;
                break;
            case 1:
                host.make_hole(memory_.page(kind / 4 % memory_.page_count()), 1);
                break;
            case 2:
                host.fail_dma_after = kind / 4;
                break;
            default:
                host.bus_master = false;
                break;
        }
    }

    // Moves the consumer counters of the first EQs, as if their events had been read. Programs
    // mostly create the async EQ first.
    void drain() {
        for (uint32_t eqn = 1; eqn < 5; ++eqn) {
            const uint64_t value = number(1) << PIB_HCA_DB_COUNTER_SHIFT | eqn | PIB_HCA_DB_EQ_ARM;
            bench_.driver.ring(0, PIB_HCA_UAR_EQ, value, 8);
        }
    }

    void command(uint8_t what) {
        static constexpr uint16_t kOpcodes[] = {PIB_HCA_CMD_NOP,
                                                PIB_HCA_CMD_QUERY_DEVICE,
                                                PIB_HCA_CMD_MODIFY_DEVICE,
                                                PIB_HCA_CMD_QUERY_PORT,
                                                PIB_HCA_CMD_MODIFY_PORT,
                                                PIB_HCA_CMD_QUERY_PKEYS,
                                                PIB_HCA_CMD_QUERY_GIDS,
                                                PIB_HCA_CMD_MAD_IFC,
                                                PIB_HCA_CMD_QUERY_COUNTERS,
                                                PIB_HCA_CMD_ALLOC_UAR,
                                                PIB_HCA_CMD_FREE_UAR,
                                                PIB_HCA_CMD_ALLOC_PD,
                                                PIB_HCA_CMD_FREE_PD,
                                                PIB_HCA_CMD_CREATE_MR,
                                                PIB_HCA_CMD_DESTROY_MR,
                                                PIB_HCA_CMD_ALLOC_MW,
                                                PIB_HCA_CMD_DEALLOC_MW,
                                                PIB_HCA_CMD_REREG_MR,
                                                PIB_HCA_CMD_CREATE_EQ,
                                                PIB_HCA_CMD_DESTROY_EQ,
                                                PIB_HCA_CMD_CREATE_CQ,
                                                PIB_HCA_CMD_DESTROY_CQ,
                                                PIB_HCA_CMD_RESIZE_CQ,
                                                PIB_HCA_CMD_ALLOC_XRCD,
                                                PIB_HCA_CMD_FREE_XRCD,
                                                PIB_HCA_CMD_CREATE_SRQ,
                                                PIB_HCA_CMD_MODIFY_SRQ,
                                                PIB_HCA_CMD_QUERY_SRQ,
                                                PIB_HCA_CMD_DESTROY_SRQ,
                                                PIB_HCA_CMD_CREATE_QP,
                                                PIB_HCA_CMD_MODIFY_QP,
                                                PIB_HCA_CMD_QUERY_QP,
                                                PIB_HCA_CMD_DESTROY_QP,
                                                PIB_HCA_CMD_ATTACH_MCAST,
                                                PIB_HCA_CMD_DETACH_MCAST,
                                                PIB_HCA_CMD_SET_SHADOW_PAGE,
                                                0x7f,
                                                PIB_HCA_CMD_MODERATE_CQ,
                                                PIB_HCA_CMD_QUERY_EQ,
                                                PIB_HCA_CMD_QUERY_CQ,
                                                PIB_HCA_CMD_QUERY_KEY,
                                                PIB_HCA_CMD_QUERY_QP_PROGRESS,
                                                PIB_HCA_CMD_QUERY_PAGE_FAULT,
                                                PIB_HCA_CMD_RESUME_PAGE_FAULT,
                                                PIB_HCA_CMD_INJECT_EVENT};
        const uint16_t opcode = kOpcodes[in_.byte() % std::size(kOpcodes)];
        std::array<uint8_t, kMaxInput> input{};
        const size_t length = fill(opcode, input);
        // Half of the commands are corrupted: a few bytes of the structure are replaced.
        if ((what & 0x80) != 0) {
            for (unsigned n = in_.byte() % 4; n > 0; --n) {
                input[static_cast<size_t>(number(2)) % input.size()] = in_.byte();
            }
        }
        bench_.host.poke(bench_.driver.in_buffer(), input);
        const bool named =
            opcode != PIB_HCA_CMD_NOP && !creates(opcode) && opcode != PIB_HCA_CMD_QUERY_DEVICE &&
            opcode != PIB_HCA_CMD_MODIFY_DEVICE && opcode != PIB_HCA_CMD_QUERY_COUNTERS &&
            opcode != PIB_HCA_CMD_QUERY_PAGE_FAULT;
        const bool of_port = opcode >= PIB_HCA_CMD_QUERY_PORT && opcode <= PIB_HCA_CMD_MAD_IFC;
        const uint32_t name = of_port ? in_.byte() % 3 : named ? object() : 0;
        const CommandOutcome outcome =
            bench_.driver.submit(bench_.driver.make_entry(opcode, name, length, 4096));
        if (outcome.ok() && creates(opcode)) {
            created_.push_back(outcome.result);
        }
    }

    template <typename T>
    static size_t put(std::array<uint8_t, kMaxInput>& to, const T& value) {
        std::memcpy(to.data(), &value, sizeof value);
        return sizeof value;
    }

    // Fills in a valid structure with numbers of existing objects.
    size_t fill(uint16_t opcode, std::array<uint8_t, kMaxInput>& to) {
        switch (opcode) {
            case PIB_HCA_CMD_MODIFY_DEVICE:
                return put(to, pib_hca_modify_device{});
            case PIB_HCA_CMD_MODIFY_PORT:
                return put(to, pib_hca_modify_port{});
            case PIB_HCA_CMD_MAD_IFC:
                return put(to, get_node_info());
            case PIB_HCA_CMD_CREATE_MR:
                return put(to, mr());
            case PIB_HCA_CMD_REREG_MR: {
                pib_hca_rereg_mr in{};
                in.mr = mr();
                in.mr.flags = 0;
                in.mask = in_.byte() % 8;
                return put(to, in);
            }
            case PIB_HCA_CMD_ALLOC_MW:
                return put(to, mw());
            case PIB_HCA_CMD_SET_SHADOW_PAGE:
                return put(to, pib_hca_set_shadow_page{.addr = memory_.page(0)});
            case PIB_HCA_CMD_CREATE_EQ:
                return put(to, eq());
            case PIB_HCA_CMD_CREATE_CQ:
                return put(to, cq());
            case PIB_HCA_CMD_RESIZE_CQ:
                return put(to, resize());
            case PIB_HCA_CMD_MODERATE_CQ:
                return put(to, pib_hca_moderate_cq{
                                   .count = in_.byte(), .period = in_.byte(), .reserved = {}});
            case PIB_HCA_CMD_RESUME_PAGE_FAULT:
                return put(to, pib_hca_resume_page_fault{.flags = in_.byte() % 4u, .reserved = 0});
            case PIB_HCA_CMD_INJECT_EVENT:
                return put(to, pib_hca_inject_event{.type = in_.byte(),
                                                    .port = static_cast<uint8_t>(in_.byte() % 3),
                                                    .reserved = 0,
                                                    .data = in_.byte()});
            case PIB_HCA_CMD_CREATE_SRQ:
                return put(to, srq());
            case PIB_HCA_CMD_MODIFY_SRQ:
                return put(to, modify_srq());
            case PIB_HCA_CMD_CREATE_QP:
                return put(to, qp());
            case PIB_HCA_CMD_MODIFY_QP:
                return put(to, modify());
            case PIB_HCA_CMD_ATTACH_MCAST:
            case PIB_HCA_CMD_DETACH_MCAST: {
                pib_hca_mcast in{};
                in.mgid[0] = 0xff;
                in.mgid[15] = in_.byte();
                in.mlid = static_cast<uint16_t>(0xc000 + in.mgid[15]);
                return put(to, in);
            }
            default:
                return 0;
        }
    }

    pib_hca_mad_ifc get_node_info() {
        pib_hca_mad_ifc in{};
        in.mad[0] = 1;
        in.mad[1] = 1;
        in.mad[2] = 1;
        in.mad[3] = 1;
        in.mad[17] = in_.byte() % 0x20;
        in.slid = 0xffff;
        return in;
    }
    pib_hca_create_mr mr() {
        pib_hca_create_mr in{};
        in.pd = object();
        in.access = in_.byte() & 0x0f;
        in.iova = number(4);
        in.length = 1 + number(2);
        in.pages = memory_.list();
        in.key = in_.byte();
        const uint8_t kind = in_.byte() % 4;
        if (kind == 1) {
            in.flags = PIB_HCA_MR_ON_DEMAND;
            in.iova = 0;
        } else if (kind == 0) {
            const uint32_t pd = in.pd;
            in = {};
            in.pd = pd;
            in.flags = PIB_HCA_MR_FAST;
            in.pages.page_count = 1 + in_.byte();
        }
        return in;
    }
    pib_hca_alloc_mw mw() {
        pib_hca_alloc_mw in{};
        in.pd = object();
        in.type = static_cast<uint8_t>(1 + in_.byte() % 2);
        in.key = in_.byte();
        return in;
    }
    pib_hca_create_eq eq() {
        pib_hca_create_eq in{};
        in.pages = memory_.list();
        in.log_depth = static_cast<uint8_t>(1 + in_.byte() % 8);
        in.vector = in_.byte() % 10;
        in.flags = in_.byte() & 1;
        return in;
    }
    pib_hca_create_cq cq() {
        pib_hca_create_cq in{};
        in.pages = memory_.list();
        in.pages.page_count = 3;
        in.eqn = object();
        in.log_depth = 7;
        return in;
    }
    pib_hca_resize_cq resize() {
        pib_hca_resize_cq in{};
        in.pages = memory_.list();
        in.pages.page_count = 2;
        in.log_depth = in_.byte() % 8;
        return in;
    }
    pib_hca_create_srq srq() {
        pib_hca_create_srq in{};
        in.pages = memory_.list();
        in.pd = object();
        in.offset = 64;
        in.log_depth = in_.byte() % 5;
        in.log_stride = 6;
        if (in_.byte() % 2 == 0) {
            in.flags = PIB_HCA_SRQ_XRC;
            in.xrcd = object();
            in.cq = object();
        }
        return in;
    }
    pib_hca_modify_srq modify_srq() {
        pib_hca_modify_srq in{};
        in.attr_mask = in_.byte() % 4;
        in.limit = in_.byte() % 32;
        in.pages = memory_.list();
        in.log_depth = in_.byte() % 5;
        return in;
    }
    pib_hca_create_qp target() {
        pib_hca_create_qp in{};
        in.type = PIB_HCA_QP_XRC_TGT;
        in.flags = PIB_HCA_QP_NO_SQ | PIB_HCA_QP_NO_RQ;
        in.xrcd = object();
        return in;
    }
    pib_hca_create_qp qp() {
        if (in_.byte() % 8 == 0) {
            return target();
        }
        pib_hca_create_qp in{};
        in.pages = memory_.list();
        in.pd = object();
        in.send_cq = object();
        in.recv_cq = object();
        in.sq_offset = 64;
        in.rq_offset = 64 + (16 << 6);
        in.type = static_cast<uint8_t>(in_.byte() % 5);
        in.port = in.type < PIB_HCA_QP_RC ? 1 : 0;
        in.log_sq_depth = 4;
        in.log_rq_depth = 4;
        in.log_sq_stride = 6;
        in.log_rq_stride = 6;
        in.pages.page_count = 2;
        return in;
    }
    // Attributes of a step from Reset to RTS, whatever the QP's type is.
    pib_hca_modify_qp modify() {
        pib_hca_modify_qp in{};
        in.state = static_cast<uint8_t>(in_.byte() % 7);
        static constexpr uint32_t kMasks[] = {
            PIB_HCA_QP_ATTR_STATE,
            PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_PKEY_INDEX | PIB_HCA_QP_ATTR_PORT |
                PIB_HCA_QP_ATTR_ACCESS_FLAGS,
            PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_PKEY_INDEX | PIB_HCA_QP_ATTR_PORT |
                PIB_HCA_QP_ATTR_QKEY,
            PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_PKEY_INDEX | PIB_HCA_QP_ATTR_QKEY,
            PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_AV | PIB_HCA_QP_ATTR_PATH_MTU |
                PIB_HCA_QP_ATTR_DEST_QPN | PIB_HCA_QP_ATTR_RQ_PSN |
                PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC | PIB_HCA_QP_ATTR_MIN_RNR_TIMER,
            PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_SQ_PSN | PIB_HCA_QP_ATTR_TIMEOUT |
                PIB_HCA_QP_ATTR_RETRY_CNT | PIB_HCA_QP_ATTR_RNR_RETRY |
                PIB_HCA_QP_ATTR_MAX_QP_RD_ATOMIC,
            PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_SQ_PSN,
        };
        in.attr_mask = kMasks[in_.byte() % std::size(kMasks)];
        in.port = 1;
        in.path_mtu = 1;
        in.av.dlid = 1;
        in.dest_qpn = PIB_HCA_FIRST_QPN;
        in.timeout = 10;
        return in;
    }

    // A reset restores a working device in every case.
    void finish() {
        bench_.host.heal();
        bench_.host.bus_master = true;
        bench_.driver.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
        require(bench_.driver.read32(PIB_HCA_REG_STATUS) == 0, "a reset clears the status");
        require(bench_.driver.enable(2), "the device can be enabled after a reset");
        require(bench_.driver.command(PIB_HCA_CMD_NOP).ok(), "a reset device takes commands");
        require(bench_.driver.alloc_pd() == 1, "a reset leaves no object");
    }

    Input in_;
    static Config with_index() {
        Config config = bench_config();
        config.shadow_doorbells = true;
        return config;
    }

    Bench bench_{with_index()};
    GuestMemory memory_;
    std::vector<uint32_t> created_{1};
};

// A program of valid commands: for each of them step byte 7, the index of its opcode, and operands.
Bytes commands(std::initializer_list<Bytes> list) {
    Bytes program;
    for (const Bytes& one : list) {
        program.push_back(7);
        std::ranges::copy(one, std::back_inserter(program));
    }
    return program;
}

}  // namespace

std::vector<Bytes> seeds() {
    const Bytes async_eq = {15, 5, 0, 1};
    const Bytes alloc_pd = {11};
    const Bytes cq = {17, 0};
    const Bytes rc_qp = {19, 0, 0, 0, 2};
    const Bytes to_init = {20, 1, 1, 0};
    const Bytes to_rtr = {20, 2, 4, 0};
    const Bytes to_rts = {20, 3, 5, 0};
    return {
        commands({{0}, {1}, {8}, {3, 1}, {5, 1}, {6, 1}, {7, 0x11, 1}}),
        commands({alloc_pd, async_eq, cq, {13, 0, 1, 0, 0, 0, 0, 100, 0, 5}, {12, 0}}),
        commands({alloc_pd, async_eq, cq, rc_qp, to_init, to_rtr, to_rts, {22, 0}}),
        commands({alloc_pd, async_eq, cq, {19, 0, 0, 0, 4}, {23, 9}, {24, 9}}),
        {0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 1, 5, 0, 6, 1, 1, 1, 1},
    };
}

void run(std::span<const uint8_t> input) {
    Program(input).run();
}

}  // namespace pib::fuzz
