/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TLS on the links of a device: QEMU's object tls-creds-x509, as other network
 * back ends of QEMU use it.
 */
#include "qemu/osdep.h"
#include "crypto/tlscreds.h"
#include "pib_hca_glue.h"
#include "qapi/error.h"

struct PibHcaTls {
    QCryptoTLSCreds *creds;
    char *hostname;
};

/* Returns whether `host` names this machine, to which links need no TLS. */
static bool pib_hca_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    if (inet_pton(AF_INET6, host, &v6) == 1) {
        return IN6_IS_ADDR_LOOPBACK(&v6);
    }
    return g_str_equal(host, "localhost");
}

static QCryptoTLSCreds *pib_hca_tls_find(const char *id, Error **errp)
{
    Object *object =
        object_resolve_path_component(object_get_objects_root(), id);
    QCryptoTLSCreds *creds = (QCryptoTLSCreds *)object_dynamic_cast(
        object ? object : object_get_objects_root(), TYPE_QCRYPTO_TLS_CREDS);

    if (!creds) {
        error_setg(errp,
                   "tls-creds=%s: no such object: add -object tls-creds-x509,"
                   "id=%s,endpoint=client,dir=DIRECTORY",
                   id, id);
        return NULL;
    }
    if (!qcrypto_tls_creds_check_endpoint(
            creds, QCRYPTO_TLS_CREDS_ENDPOINT_CLIENT, errp)) {
        return NULL;
    }
    return creds;
}

bool pib_hca_tls_open(PibHca *hca, const SocketAddress *address,
                      Error **errp)
{
    bool is_tcp = address->type == SOCKET_ADDRESS_TYPE_INET;
    const char *id = hca->prop.tls_creds;
    QCryptoTLSCreds *creds;

    if (!id || !*id) {
        if (is_tcp && !hca->prop.plain_tcp &&
            !pib_hca_is_loopback(address->u.inet.host)) {
            error_setg(errp,
                       "fabric=%s leaves this host without encryption: give "
                       "tls-creds=ID, or permit it with plain-tcp=on",
                       hca->prop.fabric);
            return false;
        }
        return true;
    }
    if (!is_tcp) {
        error_setg(errp, "tls-creds: only with fabric=tcp:HOST:PORT");
        return false;
    }
    creds = pib_hca_tls_find(id, errp);
    if (!creds) {
        return false;
    }
    hca->tls = g_new0(PibHcaTls, 1);
    hca->tls->creds = QCRYPTO_TLS_CREDS(object_ref(OBJECT(creds)));
    hca->tls->hostname = g_strdup(hca->prop.tls_hostname ?
                                      hca->prop.tls_hostname :
                                      address->u.inet.host);
    return true;
}

void pib_hca_tls_close(PibHca *hca)
{
    if (hca->tls) {
        object_unref(OBJECT(hca->tls->creds));
        g_free(hca->tls->hostname);
        g_clear_pointer(&hca->tls, g_free);
    }
}

QIOChannelTLS *pib_hca_tls_channel(PibHca *hca, QIOChannel *socket,
                                   Error **errp)
{
    return qio_channel_tls_new_client(socket, hca->tls->creds,
                                      hca->tls->hostname, errp);
}
