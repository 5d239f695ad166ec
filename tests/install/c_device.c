// SPDX-License-Identifier: GPL-2.0-or-later
/* The first step of a virtual machine monitor: creates a device with the installed library alone. */
#include <pib_hca_core.h>
#include <pib_hca_hw.h>
#include <stdio.h>

static bool no_read(void *opaque, uint64_t addr, uint8_t *to, size_t length)
{
    return false;
}

static bool no_write(void *opaque, uint64_t addr, const uint8_t *from, size_t length)
{
    return false;
}

static bool no_exchange(void *opaque, uint64_t addr, uint64_t *expected, uint64_t desired)
{
    return false;
}

static void nothing(void *opaque)
{
}

static void no_interrupt(void *opaque, unsigned vector)
{
}

static uint64_t midnight(void *opaque)
{
    return 0;
}

static void no_timer(void *opaque, uint64_t deadline_ns)
{
}

static size_t no_link(void *opaque, unsigned port, const PibHcaBytes *parts, size_t count)
{
    return 0;
}

static void no_close(void *opaque, unsigned port)
{
}

static void no_log(void *opaque, unsigned level, const char *text)
{
}

static const PibHcaHostOps ops = {
    .dma_read = no_read,
    .dma_write = no_write,
    .dma_cmpxchg64 = no_exchange,
    .dma_barrier = nothing,
    .raise_msix = no_interrupt,
    .now_ns = midnight,
    .set_timer = no_timer,
    .wake = nothing,
    .link_write = no_link,
    .link_close = no_close,
    .log = no_log,
};

int main(void)
{
    PibHcaConfig config;
    PibHcaCore *core;
    char *error = NULL;

    pib_hca_config_init(&config);
    config.node_guid = 0x5254000000000001;
    config.port_guids[0] = 0x5254000000000002;
    core = pib_hca_core_create(&config, &ops, NULL, &error);
    if (!core) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    printf("%llu\n", (unsigned long long)pib_hca_core_mmio_read(core, PIB_HCA_BAR_REGS,
                                                                PIB_HCA_REG_PORT_COUNT, 4));
    pib_hca_core_destroy(core);
    return 0;
}
