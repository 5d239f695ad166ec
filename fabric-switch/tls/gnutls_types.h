// SPDX-License-Identifier: GPL-2.0-or-later
// GnuTLS's objects with one owner each, and its errors as text.
#pragma once

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include <memory>
#include <string>
#include <type_traits>

namespace pib::fabric {

template <auto Free>
struct GnutlsFree {
    template <typename Object>
    void operator()(Object* object) const {
        Free(object);
    }
};
template <typename Handle, auto Free>
using GnutlsPtr = std::unique_ptr<std::remove_pointer_t<Handle>, GnutlsFree<Free>>;

using X509Cert = GnutlsPtr<gnutls_x509_crt_t, gnutls_x509_crt_deinit>;
using X509Key = GnutlsPtr<gnutls_x509_privkey_t, gnutls_x509_privkey_deinit>;

// An object that an _init function of GnuTLS makes; nullptr: no memory.
template <typename Pointer>
[[nodiscard]] Pointer make_gnutls(int (*init)(typename Pointer::pointer*)) {
    typename Pointer::pointer object = nullptr;
    return Pointer(init(&object) == GNUTLS_E_SUCCESS ? object : nullptr);
}

// Memory that GnuTLS has allocated.
class GnutlsData {
  public:
    GnutlsData() = default;
    ~GnutlsData() { gnutls_free(datum_.data); }
    GnutlsData(const GnutlsData&) = delete;
    GnutlsData& operator=(const GnutlsData&) = delete;

    [[nodiscard]] gnutls_datum_t* out() { return &datum_; }
    [[nodiscard]] std::string text() const {
        return {reinterpret_cast<const char*>(datum_.data), datum_.size};
    }

  private:
    gnutls_datum_t datum_{};
};

[[nodiscard]] inline std::string gnutls_error(const std::string& what, int code) {
    return what + ": " + gnutls_strerror(code);
}

}  // namespace pib::fabric
