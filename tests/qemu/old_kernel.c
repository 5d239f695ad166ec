/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Preloaded into QEMU, this hides the kernel's SO_PASSRIGHTS, which Linux has since 6.16. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PASSRIGHTS 83

int setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
	if (level == SOL_SOCKET && option == PASSRIGHTS) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return (int)syscall(SYS_setsockopt, fd, level, option, value, length);
}
