/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * SharedMemory::map() of shared_memory.h for C: the connecting side of a link maps what the listening side
 * has handed over.
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

/* One direction; what a ring is, ib/link/shared_ring.h says. */
typedef struct PibLinkRing {
    void *control;
    uint8_t *bytes; /* mapped twice in a row */
    uint32_t size;
} PibLinkRing;

/* The descriptor stays the caller's. NULL, and one line in *error (free() it), when it is not what it has to be. */
PibLinkMemory *pib_link_memory_map(int memfd, char **error);
void pib_link_memory_unmap(PibLinkMemory *memory); /* NULL: nothing happens */

PibLinkRing pib_link_memory_out(const PibLinkMemory *memory);
PibLinkRing pib_link_memory_in(const PibLinkMemory *memory);
/* The futex that the listening side wakes the connecting side by. */
uint32_t *pib_link_memory_wakes(const PibLinkMemory *memory);

#ifdef __cplusplus
}
#endif

#endif /* PIB_LINK_MEMORY_H */
