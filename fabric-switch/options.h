// SPDX-License-Identifier: GPL-2.0-or-later
// The command line of pib-switch as plain values. Only options.cc depends on the parser library.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "base/address.h"
#include "control/ctl.h"
#include "pcap_tap.h"
#include "switch/switch_node.h"
#include "tls/cert_command.h"

namespace pib::fabric {

struct ServeOptions {
    std::vector<std::string> listen;   // unix:PATH, tls:HOST:PORT, tcp:HOST:PORT or tcp:PORT
    SocketRules sockets;               // rules for listen and connect
    std::string tls;                   // directory of certificates; empty: none
    std::vector<std::string> connect;  // as listen, with =NODE,... for some nodes only
    std::vector<std::string> only;     // switches of this process; empty: all
    std::string control;               // path of the control socket; empty: none
    std::string http;                  // address of the page; empty: no page
    std::string guid;                  // hexadecimal; empty: a hash of `listen`
    std::string pcap;                  // file; -: standard output; empty: no capture
    PcapFormat pcap_format = PcapFormat::kInfiniBand;
    std::string topology;  // file; empty: one switch
    unsigned ports = 36;
    bool shared_memory = true;
    unsigned poll_us = 20;
    std::string log_level = "info";
    std::vector<std::string> faults;  // PORT:NAME=VALUE,...
    unsigned mtu_bytes = 4096;
    unsigned data_vls = 8;
    SwitchConfig config;  // has --name, --no-bursts, --no-peer-copy; the caller sets the rest
};

struct Options {
    ServeOptions serve;
    CtlOptions ctl;
    CertOptions cert;
};

// The error is the exit status with which the program must end: after --help, or after a reported
// mistake.
[[nodiscard]] std::expected<Options, int> parse_options(int argc, char** argv);

}  // namespace pib::fabric
