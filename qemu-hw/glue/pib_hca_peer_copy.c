/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Peer copy: the memory of the VM that is shared with the switch, and its
 * control memory (docs/fabric-protocol.md, "Peer copy").
 */
#include "qemu/osdep.h"
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include "exec/cpu-common.h"
#include "pib_hca_glue.h"
#include "pib_hca_qemu.h"
#include "qemu/error-report.h"

#define RAM_BLOCKS 16

struct PibHcaPeerCopy {
    uint8_t *control;
    uint64_t control_bytes;
    unsigned count; /* number of blocks */
    PibHcaRamBlock blocks[RAM_BLOCKS];
    MemoryRegion *regions[RAM_BLOCKS];
    int fds[1 + RAM_BLOCKS]; /* control memory, then the blocks */
};

/*
 * True for memory of memory-backend-memfd: the switch can map it, and it cannot
 * shrink.
 */
static bool pib_hca_is_shareable(RAMBlock *block)
{
    int fd = qemu_ram_get_fd(block);
    int seals = fd >= 0 ? fcntl(fd, F_GET_SEALS) : -1;
    struct statfs fs;

    return seals >= 0 && (seals & F_SEAL_SHRINK) && qemu_ram_is_shared(block) &&
           block->fd_offset == 0 && fstatfs(fd, &fs) == 0 &&
           fs.f_type != HUGETLBFS_MAGIC && memory_region_is_mapped(block->mr);
}

static int pib_hca_take_block(RAMBlock *block, void *opaque)
{
    PibHcaPeerCopy *shared = opaque;

    if (shared->count < RAM_BLOCKS && pib_hca_is_shareable(block)) {
        shared->blocks[shared->count] = (PibHcaRamBlock){
            qemu_ram_get_host_addr(block), qemu_ram_get_used_length(block)};
        shared->fds[1 + shared->count] = qemu_ram_get_fd(block);
        shared->regions[shared->count] = block->mr;
        shared->count++;
    }
    return 0;
}

static unsigned pib_hca_find_blocks(PibHcaPeerCopy *shared)
{
    shared->count = 0;
    RCU_READ_LOCK_GUARD();
    qemu_ram_foreach_block(pib_hca_take_block, shared);
    return shared->count;
}

bool pib_hca_peer_copy_possible(void)
{
    PibHcaPeerCopy shared;

    if (pib_hca_find_blocks(&shared) > 0) {
        return true;
    }
    warn_report("pib-hca: peer-copy=on has no effect: the VM's memory "
                "cannot be shared; start it with "
                "-object memory-backend-memfd,id=ram,share=on,size=SIZE "
                "-machine memory-backend=ram");
    return false;
}

static void *pib_hca_map_control(int fd, uint64_t bytes)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

    if (fd < 0 || ftruncate(fd, bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, seals) != 0) {
        return MAP_FAILED;
    }
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static bool pib_hca_make_control(PibHcaPeerCopy *shared)
{
    int fd = memfd_create("pib-hca-control", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    uint64_t bytes = pib_hca_core_control_bytes(shared->blocks, shared->count);
    void *control = pib_hca_map_control(fd, bytes);

    if (control == MAP_FAILED) {
        warn_report("pib-hca: no control memory for peer-copy=on (%s); "
                    "the device copies messages itself; free memory or "
                    "descriptors, and start the VM again",
                    strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    shared->control = control;
    shared->control_bytes = bytes;
    shared->fds[0] = fd;
    return true;
}

PibHcaPeerCopy *pib_hca_peer_copy_new(void)
{
    PibHcaPeerCopy *shared = g_new0(PibHcaPeerCopy, 1);

    if (pib_hca_find_blocks(shared) == 0 || !pib_hca_make_control(shared)) {
        g_free(shared);
        return NULL;
    }
    for (unsigned i = 0; i < shared->count; i++) {
        /* Keeps the blocks, so that their addresses are not used again. */
        memory_region_ref(shared->regions[i]);
    }
    return shared;
}

void pib_hca_peer_copy_free(PibHcaPeerCopy *shared)
{
    if (!shared) {
        return;
    }
    munmap(shared->control, shared->control_bytes);
    close(shared->fds[0]);
    for (unsigned i = 0; i < shared->count; i++) {
        memory_region_unref(shared->regions[i]);
    }
    g_free(shared);
}

size_t pib_hca_peer_copy_fds(PibHcaPeerCopy *shared, int **fds)
{
    *fds = shared->fds;
    return 1 + shared->count;
}

void pib_hca_peer_copy_offer(PibHcaPeerCopy *shared, PibHcaCore *core,
                            unsigned port)
{
    pib_hca_core_link_memory(core, port, shared->control, shared->blocks,
                             shared->count);
}
