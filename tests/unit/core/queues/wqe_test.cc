// SPDX-License-Identifier: GPL-2.0-or-later
// WQEs byte by byte: each reserved field, each operation of each service, and each limit.
#include "queues/wqe.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstddef>
#include <cstring>
#include <variant>
#include <vector>

#include "wqe_encoder.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kSegmentAt = sizeof(pib_hca_wqe_control);

const pib_hca_sge kWord = {.addr = 0x1000, .length = 8, .lkey = 7};

template <typename T>
Bytes bytes_of(const T& segment) {
    const auto* from = reinterpret_cast<const uint8_t*>(&segment);
    return {from, from + sizeof segment};
}

// A valid WQE of each opcode, in a stride of 256 bytes.
Bytes valid(uint8_t opcode, pib_hca_qp_type type = PIB_HCA_QP_RC) {
    SendWr wr;
    wr.opcode = opcode;
    switch (opcode) {
        case PIB_HCA_WQE_FLUSH:
            wr.segment = bytes_of(pib_hca_wqe_flush{.remote_addr = 1,
                                                    .rkey = 2,
                                                    .length = 3,
                                                    .placement = PIB_HCA_FLUSH_GLOBAL,
                                                    .level = PIB_HCA_FLUSH_RANGE,
                                                    .reserved = {}});
            break;
        case PIB_HCA_WQE_LOCAL_INV:
            wr.segment = bytes_of(pib_hca_wqe_key{.key = 0x1234, .reserved = {}});
            break;
        case PIB_HCA_WQE_BIND_MW:
            wr.segment = bytes_of(pib_hca_wqe_bind{
                .rkey = 1, .lkey = 2, .access = 3, .reserved = 0, .addr = 4, .length = 5});
            break;
        case PIB_HCA_WQE_REG_MR:
            wr.segment = bytes_of(pib_hca_wqe_reg{.key = 1,
                                                  .access = 2,
                                                  .iova = 3,
                                                  .length = 4,
                                                  .pages = {},
                                                  .page_offset = 5,
                                                  .reserved = 0});
            break;
        default:
            wr.sges = {kWord};
    }
    Bytes wqe = encode_send(type, wr);
    wqe.resize(256);
    return wqe;
}

std::expected<SendWqe, WqeError> decode(const Bytes& wqe, QpType type = QpType::kRc,
                                        uint32_t max_inline = 64) {
    SendWqe decoded;
    const auto result = decode_send_wqe(wqe, {.type = type, .max_inline = max_inline}, decoded);
    if (!result) {
        return std::unexpected(result.error());
    }
    return decoded;
}

VendorError refusal(const Bytes& wqe, QpType type = QpType::kRc) {
    const auto decoded = decode(wqe, type);
    return decoded ? VendorError::kNone : decoded.error().detail();
}

struct Reserved {
    uint8_t opcode;
    std::vector<size_t> fields;  // offsets in the segment
};

const Reserved kReserved[] = {
    {PIB_HCA_WQE_RDMA_WRITE, {offsetof(pib_hca_wqe_rdma, reserved)}},
    {PIB_HCA_WQE_RDMA_READ, {offsetof(pib_hca_wqe_rdma, reserved)}},
    {PIB_HCA_WQE_ATOMIC_WRITE, {offsetof(pib_hca_wqe_rdma, reserved)}},
    {PIB_HCA_WQE_CMP_SWAP,
     {offsetof(pib_hca_wqe_atomic, reserved), offsetof(pib_hca_wqe_atomic, swap_mask),
      offsetof(pib_hca_wqe_atomic, compare_mask)}},
    {PIB_HCA_WQE_MASKED_FETCH_ADD, {offsetof(pib_hca_wqe_atomic, reserved)}},
    {PIB_HCA_WQE_FLUSH,
     {offsetof(pib_hca_wqe_flush, reserved), offsetof(pib_hca_wqe_flush, reserved) + 13}},
    {PIB_HCA_WQE_LOCAL_INV,
     {offsetof(pib_hca_wqe_key, reserved), offsetof(pib_hca_wqe_key, reserved) + 11}},
    {PIB_HCA_WQE_BIND_MW, {offsetof(pib_hca_wqe_bind, reserved)}},
    {PIB_HCA_WQE_REG_MR,
     {offsetof(pib_hca_wqe_reg, reserved),
      offsetof(pib_hca_wqe_reg, pages) + offsetof(pib_hca_pages, reserved)}},
};

}  // namespace

TEST_CASE("WQE: a reserved field of a segment that is not zero is refused") {
    for (const auto& [opcode, fields] : kReserved) {
        const Bytes good = valid(opcode);
        CAPTURE(static_cast<unsigned>(opcode));
        REQUIRE(refusal(good) == VendorError::kNone);
        for (const size_t field : fields) {
            CAPTURE(field);
            Bytes bad = good;
            bad[kSegmentAt + field] = 1;
            CHECK(refusal(bad) == VendorError::kReserved);
        }
    }
    const Bytes good = valid(PIB_HCA_WQE_SEND, PIB_HCA_QP_UD);
    REQUIRE(refusal(good, QpType::kUd) == VendorError::kNone);
    for (const size_t field :
         {offsetof(pib_hca_wqe_ud, reserved), offsetof(pib_hca_wqe_ud, reserved) + 5,
          offsetof(pib_hca_wqe_ud, av) + offsetof(pib_hca_av, reserved)}) {
        CAPTURE(field);
        Bytes bad = good;
        bad[kSegmentAt + field] = 1;
        CHECK(refusal(bad, QpType::kUd) == VendorError::kReserved);
    }
    Bytes flags = good;
    flags[kSegmentAt + offsetof(pib_hca_wqe_ud, av) + offsetof(pib_hca_av, flags)] = PIB_HCA_AV_GRH
                                                                                     << 1;
    CHECK(refusal(flags, QpType::kUd) == VendorError::kReserved);
}

TEST_CASE("WQE: a refused WQE leaves no values of itself and none of an earlier one") {
    const SendRules rules{.type = QpType::kRc, .max_inline = 64};
    SendWqe to;
    REQUIRE(decode_send_wqe(valid(PIB_HCA_WQE_BIND_MW), rules, to));
    Bytes bad = valid(PIB_HCA_WQE_RDMA_WRITE);
    bad[kSegmentAt + offsetof(pib_hca_wqe_rdma, reserved)] = 1;
    REQUIRE_FALSE(decode_send_wqe(bad, rules, to));
    CHECK(to.opcode == SendOpcode::kSend);
    CHECK(to.data.num_sge == 0);
    CHECK(std::holds_alternative<SendOp>(to.op));
}

TEST_CASE("WQE: operations on keys, and FLUSH, have no data") {
    const uint8_t opcode =
        GENERATE(PIB_HCA_WQE_LOCAL_INV, PIB_HCA_WQE_BIND_MW, PIB_HCA_WQE_REG_MR, PIB_HCA_WQE_FLUSH);
    Bytes with_sge = valid(opcode);
    with_sge[offsetof(pib_hca_wqe_control, num_sge)] = 1;
    CHECK(refusal(with_sge) == VendorError::kSgeCount);
    Bytes with_inline = valid(opcode);
    with_inline[offsetof(pib_hca_wqe_control, flags)] |= PIB_HCA_WQE_INLINE;
    CHECK(refusal(with_inline) == VendorError::kInline);
}

TEST_CASE("WQE: FLUSH needs a placement and a level that exist") {
    const auto flush = [](uint8_t placement, uint8_t level, uint32_t length) {
        Bytes wqe = valid(PIB_HCA_WQE_FLUSH);
        wqe[kSegmentAt + offsetof(pib_hca_wqe_flush, placement)] = placement;
        wqe[kSegmentAt + offsetof(pib_hca_wqe_flush, level)] = level;
        std::memcpy(&wqe[kSegmentAt + offsetof(pib_hca_wqe_flush, length)], &length, sizeof length);
        return refusal(wqe);
    };
    CHECK(flush(PIB_HCA_FLUSH_GLOBAL | PIB_HCA_FLUSH_PERSISTENT, PIB_HCA_FLUSH_RANGE, 9) ==
          VendorError::kNone);
    CHECK(flush(PIB_HCA_FLUSH_GLOBAL, PIB_HCA_FLUSH_REGION, 0) == VendorError::kNone);
    CHECK(flush(PIB_HCA_FLUSH_GLOBAL, PIB_HCA_FLUSH_REGION, 9) == VendorError::kReserved);
    CHECK(flush(0, PIB_HCA_FLUSH_RANGE, 9) == VendorError::kReserved);
    CHECK(flush(4, PIB_HCA_FLUSH_RANGE, 9) == VendorError::kReserved);
    CHECK(flush(PIB_HCA_FLUSH_GLOBAL, PIB_HCA_FLUSH_REGION + 1, 0) == VendorError::kReserved);
}

TEST_CASE("WQE: a service has its operations only") {
    const auto allowed = [](QpType type, pib_hca_qp_type encoded) {
        std::vector<unsigned> opcodes;
        for (unsigned opcode = 0; opcode < 256; ++opcode) {
            if (refusal(valid(static_cast<uint8_t>(opcode), encoded), type) !=
                VendorError::kOpcode) {
                opcodes.push_back(opcode);
            }
        }
        return opcodes;
    };
    using Opcodes = std::vector<unsigned>;
    CHECK(allowed(QpType::kRc, PIB_HCA_QP_RC) ==
          Opcodes{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14});
    CHECK(allowed(QpType::kXrcIni, PIB_HCA_QP_RC) ==
          Opcodes{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    CHECK(allowed(QpType::kUc, PIB_HCA_QP_RC) == Opcodes{0, 1, 2, 3, 8, 9, 10});
    for (const QpType type : {QpType::kUd, QpType::kSmi, QpType::kGsi}) {
        CHECK(allowed(type, PIB_HCA_QP_UD) == Opcodes{0, 1});
    }
}

TEST_CASE("WQE: an atomic and an ATOMIC WRITE have eight bytes of data") {
    const uint8_t opcode = GENERATE(PIB_HCA_WQE_CMP_SWAP, PIB_HCA_WQE_FETCH_ADD,
                                    PIB_HCA_WQE_MASKED_CMP_SWAP, PIB_HCA_WQE_ATOMIC_WRITE);
    for (const uint32_t length : {0u, 7u, 9u}) {
        SendWr wr;
        wr.opcode = opcode;
        wr.sges = {{.addr = 0, .length = length, .lkey = 1}};
        Bytes wqe = encode_send(PIB_HCA_QP_RC, wr);
        wqe.resize(256);
        const auto decoded = decode(wqe);
        REQUIRE_FALSE(decoded);
        CHECK(decoded.error().status == WcStatus::kLocLenErr);
        CHECK(decoded.error().detail() == VendorError::kLength);
    }
}

TEST_CASE("WQE: inline data ends with the WQE and with the QP's limit") {
    SendWr wr;
    wr.inline_data.assign(40, 1);
    Bytes wqe = encode_send(PIB_HCA_QP_RC, wr);
    wqe.resize(64);
    const auto with = [&](uint32_t length, uint32_t max_inline) {
        Bytes changed = wqe;
        std::memcpy(&changed[offsetof(pib_hca_wqe_control, inline_length)], &length, sizeof length);
        const auto decoded = decode(changed, QpType::kRc, max_inline);
        return decoded ? VendorError::kNone : decoded.error().detail();
    };
    CHECK(with(48, 1000) == VendorError::kNone);
    CHECK(with(49, 1000) == VendorError::kInline);
    CHECK(with(UINT32_MAX, UINT32_MAX) == VendorError::kInline);
    CHECK(with(40, 40) == VendorError::kNone);
    CHECK(with(41, 40) == VendorError::kInline);
    // The operand of an ATOMIC WRITE may be inline on every QP.
    wr.opcode = PIB_HCA_WQE_ATOMIC_WRITE;
    wr.inline_data.assign(8, 1);
    wqe = encode_send(PIB_HCA_QP_RC, wr);
    wqe.resize(64);
    CHECK(with(8, 0) == VendorError::kNone);
    CHECK(with(9, 0) == VendorError::kInline);
}

TEST_CASE("WQE: only a receive at an SRQ has an id, and all SGEs are within the WQE") {
    const auto refused = [](const Bytes& wqe, bool shared) {
        const auto data = decode_recv_wqe(wqe, shared);
        return data ? VendorError::kNone : data.error().detail();
    };
    Bytes wqe = encode_recv({{kWord}}, 5);
    wqe.resize(64);
    CHECK(refused(wqe, true) == VendorError::kNone);
    CHECK(recv_wqe_id(wqe) == 5);
    CHECK(refused(wqe, false) == VendorError::kReserved);
    wqe = encode_recv({{kWord}});
    wqe.resize(64);
    CHECK(decode_recv_wqe(wqe, false)->length == 8);
    Bytes reserved = wqe;
    reserved[offsetof(pib_hca_recv_wqe, reserved)] = 1;
    CHECK(refused(reserved, false) == VendorError::kReserved);
    Bytes many = wqe;
    many[0] = 4;  // the WQE has room for three
    CHECK(refused(many, false) == VendorError::kSgeCount);
    many[3] = 0x80;
    CHECK(refused(many, false) == VendorError::kSgeCount);
    many.resize(1024);
    many[3] = 0;
    many[0] = Limits::kSge + 1;
    CHECK(refused(many, false) == VendorError::kSgeCount);
}
