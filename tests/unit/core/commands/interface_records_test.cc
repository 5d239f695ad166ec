// SPDX-License-Identifier: GPL-2.0-or-later
#include "commands/interface_records.h"

#include <catch2/catch_test_macros.hpp>
#include <cstring>

using namespace pib::hca;

namespace {

// A record in which each byte has a different value, except for those that `zero` clears.
template <typename T, typename F>
T numbered(F&& zero) {
    T record;
    for (size_t i = 0; i < sizeof record; ++i) {
        reinterpret_cast<uint8_t*>(&record)[i] = static_cast<uint8_t>(i + 1);
    }
    zero(record);
    return record;
}

void clear_reserved(pib_hca_av& av) {
    av.flags = PIB_HCA_AV_GRH;
    std::memset(av.reserved, 0, sizeof av.reserved);
}

pib_hca_modify_qp attributes() {
    return numbered<pib_hca_modify_qp>([](auto& in) {
        in.attr_mask = 0;
        in.sq_draining = 0;
        in.reserved = 0;
        std::memset(in.reserved2, 0, sizeof in.reserved2);
        clear_reserved(in.av);
        clear_reserved(in.alt_av);
    });
}

}  // namespace

TEST_CASE("records: attributes of a QP keep their values in both directions") {
    const pib_hca_modify_qp in = attributes();
    const auto qp = qp_attributes(in);
    REQUIRE(qp);
    const pib_hca_modify_qp out = attributes_record(*qp);
    CHECK(std::memcmp(&in, &out, sizeof in) == 0);
}

TEST_CASE("records: a reserved field of a QP's structures is refused") {
    const auto modify = [](auto&& change) {
        pib_hca_modify_qp in = attributes();
        change(in);
        const auto qp = qp_attributes(in);
        return qp ? CmdStatus::kOk : qp.error();
    };
    CHECK(modify([](auto&) {}) == CmdStatus::kOk);
    CHECK(modify([](auto& in) { in.attr_mask = PIB_HCA_QP_ATTR_DEST_QPN << 1; }) ==
          CmdStatus::kBadReserved);
    CHECK(modify([](auto& in) { in.reserved = 1; }) == CmdStatus::kBadReserved);
    CHECK(modify([](auto& in) { in.reserved2[1] = 1; }) == CmdStatus::kBadReserved);
    CHECK(modify([](auto& in) { in.av.flags |= 2; }) == CmdStatus::kBadReserved);
    CHECK(modify([](auto& in) { in.alt_av.reserved[1] = 1; }) == CmdStatus::kBadReserved);

    const auto create = [](auto&& change) {
        pib_hca_create_qp in{};
        change(in);
        const auto qp = qp_request(in);
        return qp ? CmdStatus::kOk : qp.error();
    };
    CHECK(create([](auto&) {}) == CmdStatus::kOk);
    CHECK(create([](auto& in) { in.flags = PIB_HCA_QP_SRQ << 1; }) == CmdStatus::kBadReserved);
    CHECK(create([](auto& in) { in.reserved[1] = 1; }) == CmdStatus::kBadReserved);
    CHECK(create([](auto& in) { in.pages.reserved = 1; }) == CmdStatus::kBadReserved);

    pib_hca_mcast group{};
    CHECK(mcast_group(group));
    group.reserved[5] = 1;
    CHECK(mcast_group(group).error() == CmdStatus::kBadReserved);
}

TEST_CASE("records: a reserved field of a registration is refused") {
    pib_hca_create_mr region{};
    CHECK(registration(region));
    region.pages.reserved = 1;
    CHECK(registration(region).error() == CmdStatus::kBadReserved);
    region = {};
    region.reserved[1] = 1;
    CHECK(registration(region).error() == CmdStatus::kBadReserved);

    pib_hca_alloc_mw window{};
    CHECK(window_request(window));
    window.reserved[9] = 1;
    CHECK(window_request(window).error() == CmdStatus::kBadReserved);
}

TEST_CASE("records: REREG_MR reads the page list only when the translation changes") {
    pib_hca_rereg_mr in{};
    in.mr.pages.reserved = 1;
    in.mask = PIB_HCA_REREG_MR_ACCESS;
    CHECK(reregistration(in));
    in.mask |= PIB_HCA_REREG_MR_TRANSLATION;
    CHECK(reregistration(in).error() == CmdStatus::kBadReserved);
}

TEST_CASE("records: a page fault has the half of its QP and the access") {
    const PageFault fault{.qpn = 7,
                          .half = QpHalf::kResponder,
                          .miss = {.key = 0x105, .addr = 0x1000, .length = 12, .for_write = true}};
    const pib_hca_page_fault out = fault_record(fault);
    CHECK(out.qpn == 7);
    CHECK(out.key == 0x105);
    CHECK(out.addr == 0x1000);
    CHECK(out.length == 12);
    CHECK(out.flags == (PIB_HCA_PAGE_FAULT_RESPONDER | PIB_HCA_PAGE_FAULT_WRITE));
    CHECK(fault_record({}).length == 0);
}
