// SPDX-License-Identifier: GPL-2.0-or-later
#include "function.h"

#include "fail.h"
#include "pib_hca_hw.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICES "/sys/bus/pci/devices"
#define ADVICE "give it to vfio-pci:  ./bind.sh"

/* A number in a file of a function's directory; -1: there is none. */
static long attribute(const char *address, const char *name)
{
	char path[PATH_MAX];
	unsigned int value;
	FILE *file;
	int found;

	snprintf(path, sizeof(path), DEVICES "/%s/%s", address, name);
	file = fopen(path, "r");
	if (!file)
		return -1;
	found = fscanf(file, "%x", &value);
	fclose(file);
	return found == 1 ? (long)value : -1;
}

/* The last part of the path to which a link in a function's directory leads; "" without the link. */
static void link_name(const char *address, const char *name, char target[NAME_MAX + 1])
{
	char path[PATH_MAX], full[PATH_MAX];
	ssize_t length;

	snprintf(path, sizeof(path), DEVICES "/%s/%s", address, name);
	length = readlink(path, full, sizeof(full) - 1);
	full[length < 0 ? 0 : length] = 0;
	snprintf(target, NAME_MAX + 1, "%.*s", NAME_MAX, strrchr(full, '/') ? strrchr(full, '/') + 1 : full);
}

static bool is_hca(const char *address)
{
	return attribute(address, "vendor") == PIB_HCA_PCI_VENDOR_ID &&
	       attribute(address, "device") == PIB_HCA_PCI_DEVICE_ID;
}

static void find_address(struct function *found)
{
	DIR *directory = opendir(DEVICES);
	struct dirent *entry;

	if (!directory)
		fail_errno(DEVICES);
	while ((entry = readdir(directory)) && !is_hca(entry->d_name))
		continue;
	if (!entry)
		fail("no PCI function %04x:%04x here. Look at:  lspci -n", PIB_HCA_PCI_VENDOR_ID,
		     PIB_HCA_PCI_DEVICE_ID);
	snprintf(found->address, sizeof(found->address), "%s", entry->d_name);
	closedir(directory);
}

void function_find(struct function *found)
{
	char driver[NAME_MAX + 1], group[NAME_MAX + 1];

	find_address(found);
	link_name(found->address, "driver", driver);
	if (strcmp(driver, "vfio-pci"))
		fail("%s belongs to %s; " ADVICE, found->address, driver[0] ? driver : "no driver");
	link_name(found->address, "iommu_group", group);
	if (!group[0])
		fail("%s is in no IOMMU group; " ADVICE, found->address);
	snprintf(found->group, sizeof(found->group), "/dev/vfio/noiommu-%s", group);
	found->no_iommu = access(found->group, F_OK) == 0;
	if (!found->no_iommu)
		snprintf(found->group, sizeof(found->group), "/dev/vfio/%s", group);
}
