// SPDX-License-Identifier: GPL-2.0-or-later
/* ioctl() and write() of this program, which libibverbs calls instead of the C library's. Calls on
 * uverbs files are changed at random: header fields, attributes, handles, lengths, pointers and
 * bits of the payload. Some are repeated.
 */
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "uverbs_fuzz.h"

#define MOST_BYTES 4096	 /* a header with its attributes */
#define MOST_HANDLES 64	 /* limit of random handles */
#define CHANGED_ONE_IN 4 /* one call of this many is changed */

static _Thread_local uint64_t state = 1;
static _Thread_local int mutating;
static atomic_ulong *changed;

uint32_t below(uint32_t limit)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 16) % limit;
}

void set_seed(uint64_t seed)
{
	state = seed * 0x9e3779b97f4a7c15ULL | 1;
}

void set_mutation(int on)
{
	mutating = on;
}

void count_mutations(atomic_ulong *count)
{
	changed = count;
}

static uint64_t random_pointer(void)
{
	static const uint64_t pointers[] = {0,	     1,	    0xfffff000,		0x7fffffffe000,
					    1 << 16, ~0ULL, 0xffff888000000000, 0x8000000000000000};

	return pointers[below(sizeof(pointers) / sizeof(pointers[0]))];
}

static void flip_bit(void *bytes, uint32_t size)
{
	if (size)
		((uint8_t *)bytes)[below(size)] ^= 1 << below(8);
}

/* original: the attribute as libibverbs has made it, with a payload that can be written. */
static void change_attribute(struct ib_uverbs_attr *attr, const struct ib_uverbs_attr *original)
{
	switch (below(8)) {
	case 0:
		attr->attr_id ^= 1 << below(16);
		break;
	case 1:
		attr->len = below(2) ? below(64) : below(65536);
		break;
	case 2:
		attr->flags ^= 1 << below(16);
		break;
	case 3:
		attr->attr_data.reserved ^= 1 << below(16);
		break;
	case 4:
		attr->data = random_pointer();
		break;
	case 5:
		flip_bit(&attr->data, sizeof(attr->data));
		break;
	case 6:
		attr->data = below(MOST_HANDLES);
		break;
	default: /* a longer payload is behind a pointer */
		if (original->len > sizeof(original->data) && original->data)
			flip_bit((void *)(uintptr_t)original->data, original->len);
		else
			flip_bit(&attr->data, sizeof(attr->data));
	}
}

static void change_header(struct ib_uverbs_ioctl_hdr *hdr)
{
	switch (below(5)) {
	case 0:
		hdr->object_id = below(32) | (below(16) ? 0 : 1 << 12);
		break;
	case 1:
		hdr->method_id = below(16) | (below(16) ? 0 : 1 << 12);
		break;
	case 2:
		hdr->num_attrs = below(hdr->num_attrs + 2);
		hdr->length = sizeof(*hdr) + hdr->num_attrs * sizeof(hdr->attrs[0]);
		break;
	case 3:
		hdr->driver_id ^= 1 << below(8);
		break;
	default:
		flip_bit(hdr, sizeof(*hdr));
	}
}

/* hdr: a copy of original, with room for one more attribute. */
static void change(struct ib_uverbs_ioctl_hdr *hdr, const struct ib_uverbs_ioctl_hdr *original)
{
	unsigned times = 1 + below(3);
	unsigned attributes = original->num_attrs;

	(*changed)++;
	for (unsigned i = 0; i < times; i++) {
		unsigned drawn = attributes ? below(attributes) : 0;

		if (attributes && below(8))
			change_attribute(&hdr->attrs[drawn], &original->attrs[drawn]);
		else
			change_header(hdr);
	}
}

static int changed_ioctl(int fd, struct ib_uverbs_ioctl_hdr *hdr)
{
	union {
		struct ib_uverbs_ioctl_hdr hdr;
		uint8_t bytes[MOST_BYTES + sizeof(struct ib_uverbs_attr)];
	} copy = {0};
	uint16_t length = hdr->length;
	int ret;

	if (length > MOST_BYTES)
		return (int)syscall(SYS_ioctl, fd, RDMA_VERBS_IOCTL, hdr);
	memcpy(copy.bytes, hdr, length);
	change(&copy.hdr, hdr);
	if (!below(4)) /* once more, as a second thread might */
		syscall(SYS_ioctl, fd, RDMA_VERBS_IOCTL, &copy.hdr);
	ret = (int)syscall(SYS_ioctl, fd, RDMA_VERBS_IOCTL, &copy.hdr);
	memcpy(hdr->attrs, copy.hdr.attrs, length - sizeof(*hdr));
	return ret;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (request == RDMA_VERBS_IOCTL && mutating && !below(CHANGED_ONE_IN))
		return changed_ioctl(fd, arg);
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

ssize_t write(int fd, const void *bytes, size_t size)
{
	uint8_t copy[MOST_BYTES];

	if (!mutating || size > sizeof(copy) || below(CHANGED_ONE_IN))
		return syscall(SYS_write, fd, bytes, size);
	memcpy(copy, bytes, size);
	for (unsigned i = 0; i <= below(3); i++)
		flip_bit(copy, (uint32_t)size);
	(*changed)++;
	return syscall(SYS_write, fd, copy, below(8) ? size : below((uint32_t)size + 1));
}
