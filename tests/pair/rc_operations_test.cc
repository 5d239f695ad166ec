// SPDX-License-Identifier: GPL-2.0-or-later
// Every RC operation on a wire that loses nothing: data, completions, immediate data, atomics.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <set>

#include "pair.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

std::vector<uint8_t> pattern(size_t bytes, uint8_t seed) {
    std::vector<uint8_t> data(bytes);
    for (size_t i = 0; i < bytes; ++i) {
        data[i] = static_cast<uint8_t>(seed + i * 7 + (i >> 8));
    }
    return data;
}

std::vector<uint8_t> contents(const Hca& hca, const Buffer& buffer, size_t bytes) {
    std::vector<uint8_t> data(bytes);
    hca.host.peek_bytes(buffer.addr, data);
    return data;
}

}  // namespace

TEST_CASE("SEND of any length arrives in the posted buffer") {
    const uint32_t length = GENERATE(0u, 1u, 5u, 1024u, 1025u, 4096u, 100'003u);
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    const Buffer from = pair.a.make_buffer(128 * 1024);
    const Buffer to = pair.b.make_buffer(128 * 1024);
    const auto data = pattern(length, 3);
    pair.a.host.poke_bytes(from.addr, data);

    pair.b.post_recv(qb, {to.sge(0, 128 * 1024)});
    std::vector<pib_hca_sge> sges;
    if (length != 0) {
        sges = {from.sge(0, length / 2), from.sge(length / 2, length - length / 2)};
    }
    pair.a.post(qa, {.sges = sges});
    pair.settle();

    const auto sent = pair.a.poll_all(qa);
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].status == PIB_HCA_WC_SUCCESS);
    CHECK(sent[0].opcode == PIB_HCA_CQE_SEND);
    CHECK(sent[0].qpn == qa.qpn);
    const auto received = pair.b.poll_all(qb);
    REQUIRE(received.size() == 1);
    CHECK(received[0].status == PIB_HCA_WC_SUCCESS);
    CHECK(received[0].opcode == PIB_HCA_CQE_RECV);
    CHECK(received[0].byte_count == length);
    CHECK(contents(pair.b, to, length) == data);
}

TEST_CASE("RDMA WRITEs with and without immediate data arrive") {
    const bool with_imm = GENERATE(false, true);
    const uint32_t length = GENERATE(0u, 1u, 1024u, 70'001u);
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    const Buffer from = pair.a.make_buffer(128 * 1024);
    const Buffer to = pair.b.make_buffer(128 * 1024);
    const auto data = pattern(length, 9);
    pair.a.host.poke_bytes(from.addr, data);
    pair.b.post_recv(qb, {});
    pair.a.post(qa, {.opcode = static_cast<uint8_t>(with_imm ? PIB_HCA_WQE_RDMA_WRITE_WITH_IMM
                                                             : PIB_HCA_WQE_RDMA_WRITE),
                     .imm = 0x78563412,
                     .sges = {from.sge(0, length)},
                     .remote_addr = to.addr,
                     .rkey = to.key});
    pair.settle();

    const auto sent = pair.a.poll_all(qa);
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].status == PIB_HCA_WC_SUCCESS);
    CHECK(sent[0].opcode == PIB_HCA_CQE_RDMA_WRITE);
    const auto received = pair.b.poll_all(qb);
    REQUIRE(received.size() == (with_imm ? 1 : 0));
    if (with_imm) {
        CHECK(received[0].opcode == PIB_HCA_CQE_RECV_RDMA_WITH_IMM);
        CHECK(received[0].imm_data == 0x78563412);
        CHECK(received[0].flags == PIB_HCA_CQE_FLAG_IMM);
        CHECK(received[0].byte_count == length);
    }
    CHECK(contents(pair.b, to, length) == data);
    CHECK(pair.b.counter(PIB_HCA_COUNTER_RX_WRITE_REQUESTS) == 1);
}

TEST_CASE("RDMA READs complete, also more than may be outstanding") {
    const uint32_t length = GENERATE(0u, 8u, 1024u, 65'537u);
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.max_rd_atomic = 2, .max_dest_rd_atomic = 2});
    const Buffer to = pair.a.make_buffer(128 * 1024);
    const Buffer from = pair.b.make_buffer(128 * 1024);
    const auto data = pattern(length, 77);
    pair.b.host.poke_bytes(from.addr, data);
    for (int i = 0; i < 20; ++i) {
        pair.a.write_send(qa, {.opcode = PIB_HCA_WQE_RDMA_READ,
                               .sges = {to.sge(0, length)},
                               .remote_addr = from.addr,
                               .rkey = from.key});
    }
    pair.a.ring(qa);
    pair.settle();
    const auto sent = pair.a.poll_all(qa);
    REQUIRE(sent.size() == 20);
    for (uint32_t i = 0; i < 20; ++i) {
        CHECK(sent[i].status == PIB_HCA_WC_SUCCESS);
        CHECK(sent[i].opcode == PIB_HCA_CQE_RDMA_READ);
        CHECK(sent[i].byte_count == length);
        CHECK(sent[i].wqe_counter == i);
    }
    CHECK(contents(pair.a, to, length) == data);
    CHECK(pair.b.poll_all(qb).empty());
    CHECK(pair.b.counter(PIB_HCA_COUNTER_RX_READ_REQUESTS) == 20);
}

TEST_CASE("atomics return the old value and change the word once") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    const Buffer result = pair.a.make_buffer(4096);
    const Buffer word = pair.b.make_buffer(4096);
    pair.b.host.poke<uint64_t>(word.addr + 8, 41);

    pair.a.post(qa, {.opcode = PIB_HCA_WQE_FETCH_ADD,
                     .sges = {result.sge(0, 8)},
                     .remote_addr = word.addr + 8,
                     .rkey = word.key,
                     .swap_or_add = 1});
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_CMP_SWAP,
                     .sges = {result.sge(8, 8)},
                     .remote_addr = word.addr + 8,
                     .rkey = word.key,
                     .swap_or_add = 1000,
                     .compare = 42});
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_CMP_SWAP,
                     .sges = {result.sge(16, 8)},
                     .remote_addr = word.addr + 8,
                     .rkey = word.key,
                     .swap_or_add = 7,
                     .compare = 42});
    pair.settle();
    const auto sent = pair.a.poll_all(qa);
    REQUIRE(sent.size() == 3);
    CHECK(sent[0].opcode == PIB_HCA_CQE_FETCH_ADD);
    CHECK(sent[1].opcode == PIB_HCA_CQE_CMP_SWAP);
    CHECK(std::ranges::all_of(sent, [](auto& cqe) { return cqe.status == PIB_HCA_WC_SUCCESS; }));
    CHECK(sent[0].byte_count == 8);
    CHECK(pair.a.host.peek<uint64_t>(result.addr) == 41);
    CHECK(pair.a.host.peek<uint64_t>(result.addr + 8) == 42);
    CHECK(pair.a.host.peek<uint64_t>(result.addr + 16) == 1000);
    CHECK(pair.b.host.peek<uint64_t>(word.addr + 8) == 1000);
    CHECK(pair.b.counter(PIB_HCA_COUNTER_RX_ATOMIC_REQUESTS) == 3);
}

TEST_CASE("inline data, unsignalled requests and solicited events work") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    const Buffer to = pair.b.make_buffer(4096);
    pair.b.post_recv(qb, {to.sge(0, 64)});
    pair.b.post_recv(qb, {to.sge(64, 64)});
    pair.a.post(qa, {.flags = 0, .inline_data = pattern(33, 1)});
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_SEND_WITH_IMM,
                     .flags = PIB_HCA_WQE_SIGNALED | PIB_HCA_WQE_SOLICITED,
                     .imm = 5,
                     .inline_data = pattern(64, 2)});
    pair.settle();
    const auto sent = pair.a.poll_all(qa);
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].wqe_counter == 1);
    const auto received = pair.b.poll_all(qb);
    REQUIRE(received.size() == 2);
    CHECK(received[0].flags == 0);
    CHECK(received[1].flags == (PIB_HCA_CQE_FLAG_IMM | PIB_HCA_CQE_FLAG_SOLICITED));
    CHECK(contents(pair.b, to, 33) == pattern(33, 1));
}

TEST_CASE("inline data that is longer than the path MTU arrives in several packets") {
    const auto opcode = static_cast<uint8_t>(GENERATE(PIB_HCA_WQE_SEND, PIB_HCA_WQE_RDMA_WRITE));
    const uint32_t length = GENERATE(257u, 512u, 960u);
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.path_mtu = 1}, {.log_sq_stride = 10});
    const Buffer to = pair.b.make_buffer(4096);
    const auto data = pattern(length, 4);
    pair.b.post_recv(qb, {to.all()});
    pair.a.post(qa,
                {.opcode = opcode, .inline_data = data, .remote_addr = to.addr, .rkey = to.key});
    pair.settle();
    CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_SUCCESS);
    const bool arrived = contents(pair.b, to, length) == data;
    CHECK(arrived);
}

TEST_CASE("at most 512 packets wait for an answer") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.path_mtu = 1, .timeout = 0});
    const Buffer from = pair.a.make_buffer(1 << 20);
    const Buffer to = pair.b.make_buffer(1 << 20);
    std::set<uint32_t> psns;
    pair.tap = [&](const pib::ib::PacketView& packet) { psns.insert(packet.bth().psn.value()); };
    pair.filter = [](const pib::ib::PacketView&) { return false; };
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_RDMA_WRITE,
                     .sges = {from.all()},
                     .remote_addr = to.addr,
                     .rkey = to.key});
    pair.settle();
    // Offers take no room on the link, so more of them may wait.
    CHECK(psns.size() >= 512);
    CHECK(psns.size() <= (peer_copy_wanted() ? 2048 : 512));
}

TEST_CASE("a link without room stops the sender until there is room") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    pair.a.port.capacity = 3;
    pair.b.port.capacity = 1;
    const Buffer from = pair.a.make_buffer(1 << 20);
    const Buffer to = pair.b.make_buffer(1 << 20);
    const auto data = pattern(1 << 20, 5);
    pair.a.host.poke_bytes(from.addr, data);
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_RDMA_WRITE,
                     .sges = {from.all()},
                     .remote_addr = to.addr,
                     .rkey = to.key});
    CHECK(pair.a.port.sent.size() == 3);
    pair.settle();
    CHECK(contents(pair.b, to, 1 << 20) == data);
    CHECK(pair.a.poll_all(qa).size() == 1);
}

TEST_CASE("one doorbell does a bounded amount of work") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    pair.a.port.capacity = 10000;
    const Buffer from = pair.a.make_buffer(1 << 20);
    const Buffer to = pair.b.make_buffer(1 << 20);
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_RDMA_WRITE,
                     .sges = {from.all()},
                     .remote_addr = to.addr,
                     .rkey = to.key});
    // A turn sends at most 64 KiB, and at most 16 packets or bursts. Only the length of the message
    // bounds offers.
    CHECK(pair.a.port.sent.size() == (peer_copy_wanted()         ? 1024
                                      : pair.a.port.takes_bursts ? 64
                                                                 : 16));
    CHECK(pair.a.host.woken);
}

TEST_CASE("a doorbell whose work fits its budget requests no other turn") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.path_mtu = 5});
    const Buffer from = pair.a.make_buffer(1 << 16);
    const Buffer to = pair.b.make_buffer(1 << 16);
    pair.a.host.woken = false;
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_RDMA_WRITE,
                     .sges = {from.all()},
                     .remote_addr = to.addr,
                     .rkey = to.key});
    CHECK(pair.a.port.sent.size() == 16);
    CHECK_FALSE(pair.a.host.woken);
    pair.settle();
    CHECK(pair.a.poll_all(qa).size() == 1);
}
