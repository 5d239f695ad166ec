// SPDX-License-Identifier: GPL-2.0-or-later
// The permissions in a certificate: URIs among its alternative names, which the CA signs.
//
//     pib:role:switch, pib:role:host
//     pib:guid:FIRST-LAST              16 hexadecimal digits each
//     pib:node:NAME                    id of a node in a topology file
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "switch/peer.h"
#include "tls/gnutls_types.h"

namespace pib::fabric {

// Maximum number of alternative names: further ones are not read, and `pib-switch cert` makes no
// more.
inline constexpr unsigned kMaxNames = 256;

// Parses a range as an operator writes it: GUID, FIRST-LAST or "any". The error is one line.
[[nodiscard]] std::expected<GuidRange, std::string> parse_guids(std::string_view text);

// The URIs of a grant.
[[nodiscard]] std::vector<std::string> to_uris(const Grant& grant);
// Parses these URIs, and ignores others. The error is one line, about a malformed URI or a missing
// role.
[[nodiscard]] std::expected<Grant, std::string> grant_of(const std::vector<std::string>& uris);

// The peer with this certificate, which the caller has verified. The error is one line.
[[nodiscard]] std::expected<Peer, std::string> peer_of_certificate(gnutls_x509_crt_t certificate,
                                                                   const std::string& origin);

}  // namespace pib::fabric
