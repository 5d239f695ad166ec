// SPDX-License-Identifier: GPL-2.0-or-later
// Outputs of commands: any command with an output, on existing and other objects, with an output
// buffer of any size at any place. A command changes only its output buffer in guest memory.
#include <algorithm>
#include <array>
#include <cstring>

#include "bench.h"
#include "fuzz_target.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace pib::fuzz {
namespace {

constexpr size_t kMaxSteps = 100;
constexpr size_t kWindow = 4 * FakeHost::kPage;
constexpr uint8_t kUntouched = 0xa5;

constexpr std::array<uint16_t, 14> kOpcodes = {
    PIB_HCA_CMD_QUERY_DEVICE,  PIB_HCA_CMD_QUERY_PORT,       PIB_HCA_CMD_QUERY_PKEYS,
    PIB_HCA_CMD_QUERY_GIDS,    PIB_HCA_CMD_MAD_IFC,          PIB_HCA_CMD_QUERY_COUNTERS,
    PIB_HCA_CMD_QUERY_SRQ,     PIB_HCA_CMD_QUERY_QP,         PIB_HCA_CMD_QUERY_EQ,
    PIB_HCA_CMD_QUERY_CQ,      PIB_HCA_CMD_QUERY_KEY,        PIB_HCA_CMD_QUERY_QP_PROGRESS,
    PIB_HCA_CMD_QUERY_REFUSAL, PIB_HCA_CMD_QUERY_PAGE_FAULT,
};

class Program {
  public:
    explicit Program(std::span<const uint8_t> bytes) : in_(bytes) {
        MiniDriver& driver = bench_.driver;
        driver.enable(2);
        const uint32_t pd = driver.alloc_pd();
        const MiniEq eq = driver.create_eq(0);
        const MiniCq cq = driver.create_cq(eq.eqn);
        const MiniMr mr = driver.create_mr(pd, 8192, PIB_HCA_ACCESS_LOCAL_WRITE);
        const MiniQp qp = driver.create_qp({.pd = pd, .send_cq = cq.cqn, .recv_cq = cq.cqn});
        objects_ = {0, 1, 2, pd, eq.eqn, cq.cqn, mr.key, qp.qpn};
        window_ = bench_.host.alloc(kWindow);
    }
    void run() {
        for (size_t i = 0; i < kMaxSteps && !in_.empty(); ++i) {
            bench_.host.heal();
            trouble(in_.byte());
            command();
        }
    }

  private:
    uint32_t number(unsigned bytes) {
        uint32_t value = 0;
        const auto raw = in_.take(bytes);
        std::memcpy(&value, raw.data(), raw.size());
        return value;
    }
    void trouble(uint8_t kind) {
        const uint64_t page = window_ + (kind >> 2 & 3) * FakeHost::kPage;
        if (kind % 4 == 1) {
            bench_.host.make_hole(page, 1 + (kind >> 4));
        } else if (kind % 4 == 2) {
            bench_.host.make_read_only(page, 1 + (kind >> 4));
        }
        bench_.host.direct = kind % 4 != 3;
    }
    // An address, mostly in the window, sometimes one of the last 16 of the bus.
    uint64_t place() {
        const uint32_t at = number(2);
        return at >= 0xfff0 ? uint64_t{0} - (0x10000 - at) : window_ + at % kWindow;
    }
    void command() {
        const uint16_t opcode = kOpcodes[in_.byte() % kOpcodes.size()];
        const uint8_t which = in_.byte();
        const uint32_t object = which == 0xff ? number(4) : objects_[which % objects_.size()];
        pib_hca_cmd entry = bench_.driver.make_entry(opcode, object, 0, number(2) % 4200);
        if (opcode == PIB_HCA_CMD_MAD_IFC) {
            entry = bench_.driver.make_entry(opcode, object, mad(), entry.out_length);
        }
        entry.out_addr = entry.out_length == 0 && which % 2 == 0 ? 0 : place();
        check(entry);
    }
    uint32_t mad() {
        pib_hca_mad_ifc in{};
        in.mad[0] = 1;
        in.mad[1] = 1;
        in.mad[2] = 1;
        in.mad[3] = in_.byte();
        in.mad[17] = in_.byte();
        in.mad[23] = in_.byte();
        in.slid = 0xffff;
        bench_.host.poke(bench_.driver.in_buffer(), in);
        return sizeof in;
    }
    void check(const pib_hca_cmd& entry) {
        fill(kUntouched);
        const CommandOutcome outcome = bench_.driver.submit(entry);
        require(outcome.status != 0xff, "each command ends");
        std::array<uint8_t, kWindow> after;
        bench_.host.peek_bytes(window_, after);
        const uint64_t from = entry.out_addr - window_;
        const uint64_t room = entry.out_length;
        for (uint64_t i = 0; i < kWindow; ++i) {
            require(after[i] == kUntouched || i - from < room, "an output stays in its room");
        }
        require(!outcome.ok() || room == 0 || from >= kWindow || after[from] != kUntouched ||
                    opcode_may_answer_so(entry),
                "an output is written");
    }
    // Whether the output may by chance equal the filling: counters, keys, bytes of a MAD.
    static bool opcode_may_answer_so(const pib_hca_cmd& entry) {
        return entry.opcode == PIB_HCA_CMD_QUERY_KEY || entry.opcode == PIB_HCA_CMD_MAD_IFC ||
               entry.opcode == PIB_HCA_CMD_QUERY_COUNTERS ||
               entry.opcode == PIB_HCA_CMD_QUERY_REFUSAL;
    }
    void fill(uint8_t byte) {
        std::array<uint8_t, kWindow> bytes;
        bytes.fill(byte);
        bench_.host.poke_bytes(window_, bytes);
    }

    Input in_;
    Bench bench_{bench_config()};
    std::array<uint32_t, 8> objects_{};
    uint64_t window_ = 0;
};

}  // namespace

std::vector<Bytes> seeds() {
    std::vector<Bytes> all;
    for (uint8_t opcode = 0; opcode < kOpcodes.size(); ++opcode) {
        Bytes program;
        for (const uint8_t object : {0, 1, 4, 5, 6, 7}) {
            for (const uint8_t trouble : {0, 1 | 1 << 2, 2 | 1 << 2}) {
                program.insert(program.end(), {trouble, opcode, object, 64, 0, 0xe0, 0x0f});
            }
        }
        all.push_back(program);
    }
    return all;
}

void run(std::span<const uint8_t> input) {
    Program(input).run();
}

}  // namespace pib::fuzz
