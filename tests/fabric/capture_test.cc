// SPDX-License-Identifier: GPL-2.0-or-later
// Two HCAs at a running pib-switch, one over a Unix socket and one over TCP: tshark finds in the
// capture of their traffic every packet whole, with the opcodes, PSNs and lengths of the work
// requests.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/address.h"
#include "live_subnet.h"
#include "mini_sm.h"
#include "program.h"
#include "tshark.h"

using namespace pib;
using namespace pib::hca::test;
using namespace pib::test;

namespace {

constexpr uint32_t kAccess = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE |
                             PIB_HCA_ACCESS_REMOTE_READ | PIB_HCA_ACCESS_REMOTE_ATOMIC;
constexpr uint32_t kFirstPsn = 0xfffffc;  // so that PSNs wrap during the test
constexpr uint32_t kQKey = 0x12345;
constexpr uint32_t kImmediate = 0x04030201;  // 01 02 03 04 in packets

// ---- the switch and the two ends

sockaddr_in loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

// A TCP port that was free during the call.
uint16_t free_tcp_port() {
    const fabric::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    return ntohs(address.sin_port);
}

fabric::UniqueFd connect_tcp(uint16_t port) {
    fabric::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(port);
    REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    return fd;
}

// A switch that listens on a Unix socket and on TCP. Tries again if another process took the port.
struct ListeningSwitch {
    uint16_t port = 0;
    std::string capture;
    std::unique_ptr<Program> program;

    ListeningSwitch() {
        char name[] = "/tmp/pib-capture-test-XXXXXX";
        const fabric::UniqueFd file(::mkstemp(name));
        capture = name;
        for (int attempt = 0; attempt < 10 && (!program || !program->alive()); ++attempt) {
            port = free_tcp_port();
            const std::string address = "tcp:127.0.0.1:" + std::to_string(port);
            program = std::make_unique<Program>(
                std::vector<std::string>{"--listen", address, "--pcap", capture});
        }
        REQUIRE(program->alive());
    }
    ~ListeningSwitch() { ::unlink(capture.c_str()); }

    std::vector<fabric::UniqueFd> sockets() const {
        std::vector<fabric::UniqueFd> sockets;
        sockets.push_back(fabric::connect_unix(program->fabric_path()).value());
        sockets.push_back(connect_tcp(port));
        return sockets;
    }
};

struct End {
    Guest& guest;
    uint16_t lid;
    MiniMr memory;
    MiniCq cq;
    MiniQp rc, ud;

    End(Guest& g, uint16_t own_lid) : guest(g), lid(own_lid) {
        MiniDriver& driver = guest.driver;
        memory = driver.create_mr(guest.pd, 64 * 1024, kAccess);
        cq = driver.create_cq(driver.create_eq(3).eqn, 8);
        QpShape shape;
        shape.pd = guest.pd;
        shape.send_cq = shape.recv_cq = cq.cqn;
        rc = driver.create_qp(shape);
        shape.type = PIB_HCA_QP_UD;
        ud = driver.create_qp(shape);
        driver.connect_ud(ud, 1, kQKey);
    }
    void post_recv(MiniQp& qp) {
        const pib_hca_sge sge = MiniDriver::sge(memory, 32 * 1024, 16 * 1024);
        guest.driver.post_recv(qp, {&sge, 1});
    }
};

// Connects without a timeout, so that each packet is sent once, even on a slow machine.
void connect(End& from, const End& to) {
    RcPath path;
    path.av.dlid = to.lid;
    path.dest_qpn = to.rc.qpn;
    path.sq_psn = path.rq_psn = kFirstPsn;
    path.timeout = 0;
    from.guest.driver.connect_rc(from.rc, path);
}

// ---- the work requests and their packets

struct Work {
    pib_hca_wqe_opcode opcode;
    uint32_t bytes;
    std::vector<uint8_t> requests;
    std::vector<uint8_t> responses;  // without acknowledges

    // A READ takes a PSN for each response.
    uint32_t psns() const {
        return static_cast<uint32_t>(std::max(requests.size(), responses.size()));
    }
};

std::vector<Work> all_work() {
    namespace op = ib::opcode;
    return {
        {PIB_HCA_WQE_SEND, 3000, {op::kSendFirst, op::kSendMiddle, op::kSendLast}, {}},
        {PIB_HCA_WQE_SEND_WITH_IMM, 100, {op::kSendOnlyImm}, {}},
        {PIB_HCA_WQE_RDMA_WRITE,
         2500,
         {op::kRdmaWriteFirst, op::kRdmaWriteMiddle, op::kRdmaWriteLast},
         {}},
        {PIB_HCA_WQE_RDMA_WRITE_WITH_IMM, 7, {op::kRdmaWriteOnlyImm}, {}},
        {PIB_HCA_WQE_RDMA_READ,
         2500,
         {op::kRdmaReadRequest},
         {op::kRdmaReadResponseFirst, op::kRdmaReadResponseMiddle, op::kRdmaReadResponseLast}},
        {PIB_HCA_WQE_CMP_SWAP, 8, {op::kCmpSwap}, {op::kAtomicAcknowledge}},
        {PIB_HCA_WQE_FETCH_ADD, 8, {op::kFetchAdd}, {op::kAtomicAcknowledge}},
        // Only an acknowledge answers this request.
        {PIB_HCA_WQE_RDMA_WRITE, 64, {op::kRdmaWriteOnly}, {}},
    };
}

bool consumes_receive(pib_hca_wqe_opcode opcode) {
    return opcode == PIB_HCA_WQE_SEND || opcode == PIB_HCA_WQE_SEND_WITH_IMM ||
           opcode == PIB_HCA_WQE_RDMA_WRITE_WITH_IMM;
}

void post(End& from, const End& to, const Work& work) {
    SendWr request;
    request.opcode = work.opcode;
    request.imm = kImmediate;
    request.sges = {MiniDriver::sge(from.memory, 0, work.bytes)};
    request.remote_addr = to.memory.addr;
    request.rkey = to.memory.key;
    from.guest.driver.post_send(from.rc, request);
}

void post_datagram(End& from, const End& to) {
    SendWr request;
    request.sges = {MiniDriver::sge(from.memory, 0, 201)};
    request.av.dlid = to.lid;
    request.av.port = 1;
    request.dest_qpn = to.ud.qpn;
    request.qkey = kQKey;
    from.guest.driver.post_send(from.ud, request);
}

void complete(LiveSubnet& subnet, End& end, size_t count) {
    size_t seen = 0;
    const auto done = [&] {
        while (const auto cqe = end.guest.driver.poll(end.cq)) {
            REQUIRE(cqe->status == PIB_HCA_WC_SUCCESS);
            ++seen;
        }
        return seen == count;
    };
    REQUIRE(subnet.run_until(done));
}

void run_all_work(LiveSubnet& subnet, End& a, End& b) {
    size_t receives = 1;
    b.post_recv(b.ud);
    const std::vector<Work> all = all_work();
    for (const Work& work : all) {
        if (consumes_receive(work.opcode)) {
            b.post_recv(b.rc);
            ++receives;
        }
    }
    for (const Work& work : all) {
        post(a, b, work);
    }
    post_datagram(a, b);
    complete(subnet, a, all.size() + 1);
    complete(subnet, b, receives);
}

// ---- the capture

constexpr const char* kOpcode = "infiniband.bth.opcode";
constexpr const char* kPsn = "infiniband.bth.psn";
constexpr const char* kQp = "infiniband.bth.destqp";
constexpr const char* kDlid = "infiniband.lrh.dlid";
constexpr const char* kSlid = "infiniband.lrh.slid";
constexpr const char* kLength = "infiniband.reth.dmalen";
constexpr const char* kSentQKey = "infiniband.deth.q_key";
constexpr const char* kImm = "infiniband.immdt";
constexpr const char* kIcrc = "infiniband.invariant.crc";
constexpr const char* kVcrc = "infiniband.variant.crc";
constexpr const char* kAttribute = "infiniband.mad.attributeid";

using Step = std::pair<unsigned long, unsigned long>;  // opcode and PSN

unsigned long number(const std::string& text) {
    return std::stoul(text, nullptr, 0);
}

struct Capture {
    std::vector<Dissected> packets;

    explicit Capture(const std::string& file)
        : packets(dissect(file, {kOpcode, kPsn, kQp, kDlid, kSlid, kLength, kSentQKey, kImm, kIcrc,
                                 kVcrc, kAttribute})) {}

    // Packets to a QP, in order.
    std::vector<Dissected> to(const End& end, uint32_t qpn) const {
        std::vector<Dissected> found;
        for (Dissected packet : packets) {
            if (number(packet[kDlid]) == end.lid && number(packet[kQp]) == qpn) {
                found.push_back(std::move(packet));
            }
        }
        return found;
    }
};

std::vector<Step> steps_of(const std::vector<Dissected>& packets) {
    std::vector<Step> steps;
    for (const Dissected& packet : packets) {
        steps.emplace_back(number(packet.at(kOpcode)), number(packet.at(kPsn)));
    }
    return steps;
}

// The packets of all work in one direction: each from the first PSN of its work request on.
std::vector<Step> expected_steps(std::vector<uint8_t> Work::* direction) {
    std::vector<Step> steps;
    ib::Psn first(kFirstPsn);
    for (const Work& work : all_work()) {
        ib::Psn psn = first;
        for (const uint8_t opcode : work.*direction) {
            steps.emplace_back(opcode, psn.value());
            psn = psn + 1;
        }
        first = first + work.psns();
    }
    return steps;
}

void check_requests(const std::vector<Dissected>& packets) {
    CHECK(steps_of(packets) == expected_steps(&Work::requests));
    const auto with = [&](const char* field, const std::string& value) {
        return std::ranges::count_if(packets,
                                     [&](const Dissected& p) { return p.at(field) == value; });
    };
    CHECK(with(kLength, "2500") == 2);  // WRITE and READ
    CHECK(with(kLength, "7") == 1);
    CHECK(with(kImm, "01020304") == 2);
}

void check_responses(const std::vector<Dissected>& packets,
                     const std::vector<Dissected>& requests) {
    std::vector<Step> seen = steps_of(packets);
    REQUIRE_FALSE(seen.empty());
    CHECK(seen.back() == Step(ib::opcode::kAcknowledge, steps_of(requests).back().second));
    const auto acknowledges = std::ranges::remove(
        seen, static_cast<unsigned long>(ib::opcode::kAcknowledge), &Step::first);
    seen.erase(acknowledges.begin(), acknowledges.end());
    CHECK(seen == expected_steps(&Work::responses));
}

// ---- a capture by the control socket

constexpr uint32_t kPacketBlock = 6, kStatisticsBlock = 5;
constexpr size_t kDropped = 24;  // offset of isb_ifdrop's value in the switch's statistics blocks

// A client of a capture that reads only on request.
class IdleReader {
  public:
    IdleReader(const std::string& control, uint16_t dlid)
        : fd_(fabric::connect_unix(control).value()) {
        const json rule = {{"dlid", dlid}};
        const json request = {{"command", "capture"}, {"rules", json::array({rule})}};
        const std::string line = request.dump() + "\n";
        REQUIRE(::send(fd_.get(), line.data(), line.size(), MSG_NOSIGNAL) > 0);
        REQUIRE(eventually([&] {
            read();
            return bytes_.find('\n') != std::string::npos;
        }));
        bytes_.erase(0, bytes_.find('\n') + 1);
    }
    void read() {
        char buffer[65536];
        for (ssize_t n = 0; (n = ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0;) {
            bytes_.append(buffer, static_cast<size_t>(n));
        }
        size_t at = 0;
        while (at + 8 <= bytes_.size() && at + word(at + 4) <= bytes_.size()) {
            taken += word(at) == kPacketBlock;
            lost = word(at) == kStatisticsBlock ? word(at + kDropped) : lost;
            at += word(at + 4);
        }
        bytes_.erase(0, at);
    }
    uint64_t taken = 0, lost = 0;

  private:
    uint32_t word(size_t at) const {
        uint32_t value = 0;
        std::memcpy(&value, bytes_.data() + at, sizeof value);
        return value;
    }
    fabric::UniqueFd fd_;
    std::string bytes_;
};

}  // namespace

TEST_CASE("capture: the file has each packet of a program's traffic") {
    if (!have_program() || !have_tshark()) {
        SKIP("PIB_SWITCH is not set, or tshark is not installed");
    }
    ListeningSwitch listening;
    LiveSubnet subnet(listening.sockets());
    MiniSm sm(subnet, subnet.guest(0));
    sm.sweep();
    End a(subnet.guest(0), sm.lid_of(0)), b(subnet.guest(1), sm.lid_of(1));
    connect(a, b);
    connect(b, a);
    run_all_work(subnet, a, b);
    listening.program->stop(SIGTERM);

    Capture capture(listening.capture);
    size_t smps = 0;
    for (Dissected& packet : capture.packets) {
        REQUIRE(packet["_ws.malformed"].empty());
        CHECK_FALSE(packet[kIcrc].empty());
        CHECK_FALSE(packet[kVcrc].empty());
        smps += !packet[kAttribute].empty();
    }
    CHECK(smps > 40);
    const auto requests = capture.to(b, b.rc.qpn);
    check_requests(requests);
    check_responses(capture.to(a, a.rc.qpn), requests);
    const auto datagrams = capture.to(b, b.ud.qpn);
    REQUIRE(datagrams.size() == 1);
    CHECK(number(datagrams[0].at(kSentQKey)) == kQKey);
    CHECK(number(datagrams[0].at(kSlid)) == a.lid);
}

TEST_CASE("capture: a reader that is too slow is told how many packets it has lost") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    constexpr uint32_t kWrites = 300, kBytes = 48 * 1024, kMtu = 1024;  // 15 MB; 8 MiB are kept
    Program program;
    std::vector<fabric::UniqueFd> sockets;
    for (int i = 0; i < 2; ++i) {
        sockets.push_back(fabric::connect_unix(program.fabric_path()).value());
    }
    LiveSubnet subnet(std::move(sockets));
    MiniSm sm(subnet, subnet.guest(0));
    sm.sweep();
    End a(subnet.guest(0), sm.lid_of(0)), b(subnet.guest(1), sm.lid_of(1));
    connect(a, b);
    connect(b, a);
    IdleReader reader(program.control_path(), b.lid);
    for (uint32_t i = 0; i < kWrites; ++i) {
        post(a, b,
             {.opcode = PIB_HCA_WQE_RDMA_WRITE, .bytes = kBytes, .requests = {}, .responses = {}});
        complete(subnet, a, 1);
    }
    constexpr uint64_t kSent = uint64_t{kWrites} * kBytes / kMtu;
    CHECK(eventually([&] {
        reader.read();
        return reader.taken + reader.lost >= kSent;
    }));
    CHECK(reader.taken + reader.lost == kSent);
    CHECK(reader.taken > (6u << 20) / kMtu);
    CHECK(reader.lost > 0);
    // The switch has room for later packets, because the reader has read.
    const uint64_t lost = reader.lost;
    post(a, b,
         {.opcode = PIB_HCA_WQE_RDMA_WRITE, .bytes = kBytes, .requests = {}, .responses = {}});
    complete(subnet, a, 1);
    CHECK(eventually([&] {
        reader.read();
        return reader.taken + reader.lost == kSent + kBytes / kMtu;
    }));
    CHECK(reader.lost == lost);
}
