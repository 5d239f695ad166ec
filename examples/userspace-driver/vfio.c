// SPDX-License-Identifier: GPL-2.0-or-later
#include "vfio.h"

#include "fail.h"
#include "pib_hca_hw.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

static int open_file(const char *path)
{
	int file = open(path, O_RDWR | O_CLOEXEC);

	if (file < 0 && errno == EBUSY)
		fail("%s is in use: end the other program that drives the HCA", path);
	if (file < 0)
		fail_errno("%s (are you root?)", path);
	return file;
}

static void open_group(struct vfio *vfio, const struct function *function)
{
	struct vfio_group_status status = { .argsz = sizeof(status) };
	int type = vfio->no_iommu ? VFIO_NOIOMMU_IOMMU : VFIO_TYPE1v2_IOMMU;

	vfio->container = open_file("/dev/vfio/vfio");
	if (ioctl(vfio->container, VFIO_GET_API_VERSION) != VFIO_API_VERSION)
		fail("the kernel's VFIO has another version than %d", VFIO_API_VERSION);
	vfio->group = open_file(function->group);
	if (ioctl(vfio->group, VFIO_GROUP_GET_STATUS, &status))
		fail_errno("%s", function->group);
	if (!(status.flags & VFIO_GROUP_FLAGS_VIABLE))
		fail("%s: another function of the group has a driver. Take it from that driver", function->group);
	if (ioctl(vfio->group, VFIO_GROUP_SET_CONTAINER, &vfio->container))
		fail_errno("%s: VFIO_GROUP_SET_CONTAINER", function->group);
	if (ioctl(vfio->container, VFIO_SET_IOMMU, type))
		fail_errno("VFIO_SET_IOMMU (%s)", vfio->no_iommu ? "is no-IOMMU mode off? It comes back by  ./bind.sh" :
			   "is the module vfio_iommu_type1 loaded?");
	vfio->device = ioctl(vfio->group, VFIO_GROUP_GET_DEVICE_FD, function->address);
	if (vfio->device < 0)
		fail_errno("%s: VFIO_GROUP_GET_DEVICE_FD", function->address);
}

static struct vfio_region_info region(const struct vfio *vfio, unsigned int index)
{
	struct vfio_region_info info = { .argsz = sizeof(info), .index = index };

	if (ioctl(vfio->device, VFIO_DEVICE_GET_REGION_INFO, &info))
		fail_errno("VFIO_DEVICE_GET_REGION_INFO of region %u", index);
	return info;
}

/* Maps the first bytes of a BAR. */
static volatile uint8_t *map_bar(const struct vfio *vfio, unsigned int bar, size_t bytes)
{
	struct vfio_region_info info = region(vfio, bar);
	void *memory;

	if (!(info.flags & VFIO_REGION_INFO_FLAG_MMAP) || info.size < bytes)
		fail("BAR%u has %llu bytes and cannot be mapped", bar, (unsigned long long)info.size);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, vfio->device, (off_t)info.offset);
	if (memory == MAP_FAILED)
		fail_errno("mmap() of BAR%u", bar);
	return memory;
}

/* Sets bits of the PCI command register. */
static void enable(const struct vfio *vfio, uint16_t bits)
{
	off_t command = (off_t)region(vfio, VFIO_PCI_CONFIG_REGION_INDEX).offset + PCI_COMMAND;
	uint16_t value;

	if (pread(vfio->device, &value, sizeof(value), command) != sizeof(value))
		fail_errno("read of the PCI command register");
	value |= htole16(bits);
	if (pwrite(vfio->device, &value, sizeof(value), command) != sizeof(value))
		fail_errno("write of the PCI command register");
}

static void enable_interrupt(struct vfio *vfio)
{
	struct {
		struct vfio_irq_set set;
		int32_t file;
	} wanted = {
		.set = {
			.argsz = sizeof(wanted),
			.flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
			.index = VFIO_PCI_MSIX_IRQ_INDEX,
			.start = 0,
			.count = 1,
		},
	};

	vfio->interrupt = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (vfio->interrupt < 0)
		fail_errno("eventfd()");
	wanted.file = vfio->interrupt;
	if (ioctl(vfio->device, VFIO_DEVICE_SET_IRQS, &wanted))
		fail_errno("VFIO_DEVICE_SET_IRQS");
}

void vfio_open(struct vfio *vfio, const struct function *function)
{
	vfio->no_iommu = function->no_iommu;
	open_group(vfio, function);
	vfio->registers = map_bar(vfio, PIB_HCA_BAR_REGS, PIB_HCA_BAR_REGS_SIZE);
	vfio->uar = map_bar(vfio, PIB_HCA_BAR_UAR, PIB_HCA_UAR_PAGE_SIZE);
	enable(vfio, PCI_COMMAND_MEMORY);
	enable_interrupt(vfio);
}

void vfio_enable_bus_master(const struct vfio *vfio)
{
	enable(vfio, PCI_COMMAND_MASTER);
}

void vfio_map(const struct vfio *vfio, void *memory, size_t bytes, uint64_t bus)
{
	struct vfio_iommu_type1_dma_map map = {
		.argsz = sizeof(map),
		.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.vaddr = (uintptr_t)memory,
		.iova = bus,
		.size = bytes,
	};

	if (ioctl(vfio->container, VFIO_IOMMU_MAP_DMA, &map))
		fail_errno("VFIO_IOMMU_MAP_DMA of %zu bytes", bytes);
}

bool vfio_wait(const struct vfio *vfio, int file, int milliseconds)
{
	struct pollfd wanted[] = {
		{ .fd = vfio->interrupt, .events = POLLIN },
		{ .fd = file, .events = POLLIN },	/* poll() ignores NO_FILE */
	};
	uint64_t count;

	if (poll(wanted, 2, milliseconds) < 0)
		fail_errno("poll() of the interrupt");
	if (wanted[0].revents && read(vfio->interrupt, &count, sizeof(count)) != sizeof(count))
		fail_errno("read of the interrupt's eventfd");
	return wanted[1].revents;
}

void vfio_close(struct vfio *vfio)
{
	munmap((void *)vfio->registers, PIB_HCA_BAR_REGS_SIZE);
	munmap((void *)vfio->uar, PIB_HCA_UAR_PAGE_SIZE);
	close(vfio->interrupt);
	close(vfio->device);
	close(vfio->group);
	close(vfio->container);
}
