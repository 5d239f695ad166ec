// SPDX-License-Identifier: GPL-2.0-or-later
#include "short_slices.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace {

// The first version of the kernel's struct sched_attr, which glibc before 2.41 does not declare.
struct SchedAttr {
    uint32_t size = sizeof(SchedAttr);
    uint32_t policy = 0;  // SCHED_OTHER
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime_ns = 0;  // the slice
    uint64_t deadline_ns = 0;
    uint64_t period_ns = 0;
};
static_assert(sizeof(SchedAttr) == 48);

constexpr uint64_t kSliceNs = 100'000;  // the kernel's minimum

}  // namespace

void pib_ask_for_short_slices(void) {
    errno = 0;
    const int nice = ::getpriority(PRIO_PROCESS, 0);
    if (errno == 0) {
        SchedAttr attr;
        attr.nice = nice;
        attr.runtime_ns = kSliceNs;
        ::syscall(SYS_sched_setattr, 0, &attr, 0);
    }
}
