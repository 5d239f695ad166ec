/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * zero-copy=switch: which memory of the VM the switch can be given, and the control memory that goes with it
 * (docs/fabric-protocol.md, "One copy").
 */
#include "qemu/osdep.h"
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include "exec/cpu-common.h"
#include "exec/memory.h"
#include "exec/ramblock.h"
#include "pib_hca_glue.h"
#include "qemu/error-report.h"

/* As memory-backend-memfd makes it: others can map it, and cannot be hit by its shrinking. */
static bool is_shareable(RAMBlock *block)
{
    int fd = qemu_ram_get_fd(block);
    int seals = fd >= 0 ? fcntl(fd, F_GET_SEALS) : -1;
    struct statfs fs;

    return seals >= 0 && (seals & F_SEAL_SHRINK) && qemu_ram_is_shared(block) &&
           block->fd_offset == 0 && fstatfs(fd, &fs) == 0 && fs.f_type != HUGETLBFS_MAGIC &&
           memory_region_is_mapped(block->mr);
}

static int take_block(RAMBlock *block, void *opaque)
{
    PibHcaOneCopy *shared = opaque;

    if (shared->count < PIB_HCA_RAM_BLOCKS && is_shareable(block)) {
        shared->blocks[shared->count] =
            (PibHcaRamBlock){qemu_ram_get_host_addr(block), qemu_ram_get_used_length(block)};
        shared->fds[1 + shared->count] = qemu_ram_get_fd(block);
        shared->regions[shared->count] = block->mr;
        shared->count++;
    }
    return 0;
}

static unsigned find_blocks(PibHcaOneCopy *shared)
{
    shared->count = 0;
    RCU_READ_LOCK_GUARD();
    qemu_ram_foreach_block(take_block, shared);
    return shared->count;
}

bool pib_hca_one_copy_possible(void)
{
    PibHcaOneCopy shared;

    if (find_blocks(&shared) > 0) {
        return true;
    }
    warn_report("pib-hca: zero-copy=switch has no effect: the VM's memory cannot be shared; start it with "
                "-object memory-backend-memfd,id=ram,share=on,size=SIZE -machine memory-backend=ram");
    return false;
}

static bool make_control(PibHcaOneCopy *shared)
{
    int fd = memfd_create("pib-hca-control", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *control = MAP_FAILED;

    shared->control_bytes = pib_hca_core_control_bytes(shared->blocks, shared->count);
    if (fd >= 0 && ftruncate(fd, shared->control_bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        control = mmap(NULL, shared->control_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (control == MAP_FAILED) {
        warn_report("pib-hca: no control memory for zero-copy=switch: %s", strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    shared->control = control;
    shared->fds[0] = fd;
    return true;
}

/* The core writes MEMORY meanwhile, and the descriptors go with its first byte. */
void pib_hca_one_copy_share(PibHcaLink *link)
{
    PibHcaOneCopy *shared = g_new0(PibHcaOneCopy, 1);

    if (find_blocks(shared) == 0 || !make_control(shared)) {
        g_free(shared);
        return;
    }
    for (unsigned i = 0; i < shared->count; i++) {
        memory_region_ref(shared->regions[i]); /* nothing else is mapped there before we let go */
    }
    link->one_copy = shared;
    link->fds_to_send = 1 + shared->count;
    pib_hca_core_link_memory(link->hca->core, link->port, shared->control, shared->blocks, shared->count);
    link->fds_to_send = 0;
}

void pib_hca_one_copy_drop(PibHcaLink *link)
{
    PibHcaOneCopy *shared = g_steal_pointer(&link->one_copy);

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
