/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * C interface of shared_memory.h: the connecting side of a link maps the memory
 * that the listening side has sent.
 */
#ifndef PIB_LINK_MEMORY_H
#define PIB_LINK_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct PibLinkMemory PibLinkMemory;

/* The ring of one direction: a RingView of ib/link/shared_ring.h. */
typedef struct PibLinkRing {
    void* control;
    uint8_t* bytes; /* `size` bytes, mapped twice in a row */
    uint32_t size;  /* a power of two */
} PibLinkRing;

/*
 * Returns NULL if the memory breaks the protocol's rules or cannot be mapped;
 * *error is then one line, which the caller frees with free(). The caller still
 * owns the descriptor.
 */
PibLinkMemory* pib_link_memory_map(int memfd, char** error);
void pib_link_memory_unmap(PibLinkMemory* memory); /* NULL is allowed */

/* The rings that the connecting side writes (out) and reads (in). */
PibLinkRing pib_link_memory_out(const PibLinkMemory* memory);
PibLinkRing pib_link_memory_in(const PibLinkMemory* memory);
/*
 * The futex on which the connecting side sleeps; the listening side wakes it.
 */
uint32_t* pib_link_memory_wakes(const PibLinkMemory* memory);

#ifdef __cplusplus
}
#endif

#endif /* PIB_LINK_MEMORY_H */
