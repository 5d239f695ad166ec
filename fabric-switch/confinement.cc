// SPDX-License-Identifier: GPL-2.0-or-later
// A list of permitted system calls; any other fails with EPERM.
#include "confinement.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

namespace pib::fabric {
namespace {

[[maybe_unused]] constexpr const char* kPermitted[] = {
    // links and the control socket
    "accept4", "connect", "getpeername", "getsockname", "getsockopt", "recvfrom", "recvmsg",
    "sendmsg", "sendto", "setsockopt", "shutdown",
    // shared memory, captures, the log
    "close", "eventfd2", "fcntl", "fstat", "fstatfs", "ftruncate", "futex", "lseek", "memfd_create",
    "newfstatat", "pread64", "read", "readv", "unlink", "unlinkat", "write", "writev",
    // waiting
    "clock_nanosleep", "epoll_ctl", "epoll_pwait", "epoll_wait", "nanosleep", "poll", "ppoll",
    "restart_syscall", "sched_yield", "signalfd4",
    // memory and time
    "brk", "clock_getres", "clock_gettime", "getcpu", "getrandom", "getrusage", "gettimeofday",
    "madvise", "mremap", "munmap", "time",
    // the process itself
    "exit", "exit_group", "getegid", "geteuid", "getgid", "getpid", "gettid", "getuid",
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sched_getaffinity", "sched_getattr",
    "sched_getparam", "sched_getscheduler", "sched_setattr", "sigaltstack", "sysinfo", "tgkill"};

// A system call that is permitted only with certain values of one argument.
struct Limited {
    const char* call;
    scmp_arg_cmp argument;
};
[[maybe_unused]] constexpr Limited kLimited[] = {
    {"openat", {2, SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY}},
    {"mmap", {2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0}},
    {"mprotect", {2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0}},
    {"socket", {0, SCMP_CMP_EQ, AF_UNIX, 0}},
    {"socket", {0, SCMP_CMP_EQ, AF_INET, 0}},
    {"socket", {0, SCMP_CMP_EQ, AF_INET6, 0}},
};

using Filter = std::unique_ptr<void, decltype(&seccomp_release)>;

// A system call that this architecture does not have needs no rule.
[[maybe_unused]] int permit(scmp_filter_ctx filter, const char* call,
                            const scmp_arg_cmp* argument) {
    const int number = seccomp_syscall_resolve_name(call);
    return number == __NR_SCMP_ERROR
               ? 0
               : seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, number, argument != nullptr ? 1 : 0,
                                        argument);
}

#ifdef PIB_INSTRUMENTED
// Sanitizers and coverage need most system calls at the program's end, so this filter refuses only
// a few.
constexpr uint32_t kOtherCalls = SCMP_ACT_ALLOW;

int add_rules(scmp_filter_ctx filter) {
    int failed = 0;
    for (const char* call : {"execve", "execveat", "keyctl", "mount"}) {
        const int number = seccomp_syscall_resolve_name(call);
        failed = failed != 0 ? failed : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 0);
    }
    return failed;
}
#else
constexpr uint32_t kOtherCalls = SCMP_ACT_ERRNO(EPERM);

int add_rules(scmp_filter_ctx filter) {
    int failed = 0;
    for (const char* call : kPermitted) {
        failed = failed != 0 ? failed : permit(filter, call, nullptr);
    }
    for (const Limited& limited : kLimited) {
        failed = failed != 0 ? failed : permit(filter, limited.call, &limited.argument);
    }
    return failed;
}
#endif

}  // namespace

std::expected<void, std::string> drop_capabilities() {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3]{};
    if (::syscall(SYS_capset, &header, none) != 0) {
        return std::unexpected(std::string("cannot drop capabilities: ") + std::strerror(errno));
    }
    return {};
}

std::expected<void, std::string> confine() {
    if (const auto dropped = drop_capabilities(); !dropped) {
        return dropped;
    }
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return std::unexpected(std::string("cannot set no_new_privs: ") + std::strerror(errno));
    }
    const Filter filter(seccomp_init(kOtherCalls), &seccomp_release);
    if (!filter) {
        return std::unexpected("no memory for a filter of system calls");
    }
    // The filter is for all threads of the process: the thread that closes descriptors runs
    // already.
    int failed = seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1);
    failed = failed != 0 ? failed : add_rules(filter.get());
    failed = failed != 0 ? failed : seccomp_load(filter.get());
    if (failed != 0) {
        return std::unexpected(std::string("the kernel refuses the filter of system calls: ") +
                               std::strerror(-failed));
    }
    return {};
}

}  // namespace pib::fabric
