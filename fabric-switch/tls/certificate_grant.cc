// SPDX-License-Identifier: GPL-2.0-or-later
#include "tls/certificate_grant.h"

#include <array>

#include "base/guid_text.h"
#include "ib/wire/utf8.h"

namespace pib::fabric {
namespace {

constexpr std::string_view kRole = "pib:role:", kGuid = "pib:guid:", kNode = "pib:node:";
constexpr std::string_view kSwitch = "switch", kHost = "host";
constexpr size_t kMaxName = 256;  // bytes

std::unexpected<std::string> no_permissions(const std::string& why) {
    return std::unexpected("the peer's certificate " + why + ": make it with pib-switch cert");
}

std::string common_name(gnutls_x509_crt_t certificate) {
    std::array<char, kMaxName> name{};
    size_t size = name.size();
    const int code = gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0,
                                                   name.data(), &size);
    return code == GNUTLS_E_SUCCESS ? std::string(name.data(), size) : "";
}

// Skips URIs that are too long: `pib-switch cert` makes none.
std::vector<std::string> uris_of(gnutls_x509_crt_t certificate) {
    std::vector<std::string> uris;
    for (unsigned i = 0; i < kMaxNames; ++i) {
        std::array<char, kMaxName> name{};
        size_t size = name.size();
        const int kind =
            gnutls_x509_crt_get_subject_alt_name(certificate, i, name.data(), &size, nullptr);
        if (kind == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE) {
            break;
        }
        if (kind == GNUTLS_SAN_URI) {
            uris.emplace_back(name.data(), size);
        }
    }
    return uris;
}

}  // namespace

std::expected<GuidRange, std::string> parse_guids(std::string_view text) {
    if (text == "any") {
        return GuidRange{ib::Guid(1), ib::Guid(UINT64_MAX)};
    }
    const size_t dash = text.find('-');
    const auto first = parse_guid(text.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_guid(text.substr(dash + 1));
    if (!first || !last || last->value() < first->value()) {
        return std::unexpected("not GUIDs (GUID, FIRST-LAST in hexadecimal, or any): " +
                               std::string(text));
    }
    return GuidRange{*first, *last};
}

std::vector<std::string> to_uris(const Grant& grant) {
    std::vector<std::string> uris = {std::string(kRole) +
                                     std::string(grant.is_switch ? kSwitch : kHost)};
    for (const GuidRange& range : grant.guids) {
        uris.push_back(std::string(kGuid) + to_text(range.first).substr(2) + "-" +
                       to_text(range.last).substr(2));
    }
    for (const std::string& node : grant.nodes) {
        uris.push_back(std::string(kNode) + node);
    }
    return uris;
}

std::expected<Grant, std::string> grant_of(const std::vector<std::string>& uris) {
    Grant grant;
    bool has_role = false;
    for (const std::string_view uri : uris) {
        if (uri.starts_with(kRole)) {
            grant.is_switch = uri.substr(kRole.size()) == kSwitch;
            if (has_role || (!grant.is_switch && uri.substr(kRole.size()) != kHost)) {
                return no_permissions("has an unknown role, or two");
            }
            has_role = true;
        } else if (uri.starts_with(kGuid)) {
            const auto range = parse_guids(uri.substr(kGuid.size()));
            if (!range) {
                return no_permissions("has malformed GUIDs");
            }
            grant.guids.push_back(*range);
        } else if (uri.starts_with(kNode)) {
            grant.nodes.emplace_back(uri.substr(kNode.size()));
        }
    }
    if (!has_role) {
        return no_permissions("has no permissions for this fabric");
    }
    return grant;
}

std::expected<Peer, std::string> peer_of_certificate(gnutls_x509_crt_t certificate,
                                                     const std::string& origin) {
    const std::string name = common_name(certificate);
    if (name.empty() || !ib::is_printable_utf8(name)) {
        return no_permissions("has no readable name");
    }
    auto grant = grant_of(uris_of(certificate));
    if (!grant) {
        return std::unexpected(grant.error());
    }
    return Peer{.name = "certificate " + name, .origin = origin, .grant = std::move(*grant)};
}

}  // namespace pib::fabric
