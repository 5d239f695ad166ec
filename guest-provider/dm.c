// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Device memory: mapped, copied to and from by loads and stores, registered by the kernel. */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <infiniband/cmd_ioctl.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <util/mmio.h>

#include "pib.h"
#include "pib_hca_abi.h"

/* The unit of offsets and lengths, in bytes; the driver demands the same of regions. */
#define PIB_DM_UNIT 4

struct pib_dm {
	struct verbs_dm verbs_dm;
	uint8_t *map;
	size_t length; /* as requested, bytes */
};

static struct pib_dm *to_pdm(struct ibv_dm *dm)
{
	return container_of(dm, struct pib_dm, verbs_dm.dm);
}

static size_t pib_dm_mapped(const struct pib_dm *dm)
{
	return align(dm->length, to_pdev(dm->verbs_dm.dm.context->device)->page_size);
}

static bool pib_dm_range_ok(const struct pib_dm *dm, uint64_t offset, size_t length)
{
	return offset % PIB_DM_UNIT == 0 && length % PIB_DM_UNIT == 0 &&
	       offset <= dm->length && length <= dm->length - offset;
}

static int pib_memcpy_to_dm(struct ibv_dm *ibdm, uint64_t offset, const void *from,
			    size_t length)
{
	struct pib_dm *dm = to_pdm(ibdm);

	if (!pib_dm_range_ok(dm, offset, length))
		return EINVAL;
	memcpy(dm->map + offset, from, length);
	/* Flush write-combining buffers: the next posted work request may read the data. */
	mmio_flush_writes();
	return 0;
}

static int pib_memcpy_from_dm(void *to, struct ibv_dm *ibdm, uint64_t offset, size_t length)
{
	struct pib_dm *dm = to_pdm(ibdm);

	if (!pib_dm_range_ok(dm, offset, length))
		return EINVAL;
	memcpy(to, dm->map + offset, length);
	return 0;
}

static int pib_map_dm(struct pib_dm *dm, struct ibv_context *context, uint64_t offset)
{
	dm->map = mmap(NULL, pib_dm_mapped(dm), PROT_READ | PROT_WRITE, MAP_SHARED,
		       context->cmd_fd, offset);
	if (dm->map == MAP_FAILED)
		return errno;
	dm->verbs_dm.dm.memcpy_to_dm = pib_memcpy_to_dm;
	dm->verbs_dm.dm.memcpy_from_dm = pib_memcpy_from_dm;
	return 0;
}

struct ibv_dm *pib_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	DECLARE_COMMAND_BUFFER(cmdb, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, 1);
	uint64_t offset = 0;
	struct pib_dm *dm;
	int ret;

	if (!check_comp_mask(attr->comp_mask, 0)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return NULL;
	dm->length = attr->length;
	fill_attr_out(cmdb, PIB_HCA_ATTR_ALLOC_DM_MMAP_OFFSET, &offset, sizeof(offset));
	ret = ibv_cmd_alloc_dm(context, attr, &dm->verbs_dm, cmdb);
	if (ret)
		goto err_free;
	ret = pib_map_dm(dm, context, offset);
	if (ret)
		goto err_dm;
	return &dm->verbs_dm.dm;

err_dm:
	ibv_cmd_free_dm(&dm->verbs_dm);
err_free:
	free(dm);
	errno = ret;
	return NULL;
}

struct ibv_dm *pib_import_dm(struct ibv_context *context, uint32_t handle)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DM, PIB_HCA_METHOD_DM_QUERY, 3);
	uint64_t offset = 0, length = 0;
	struct pib_dm *dm;
	int ret;

	fill_attr_in_obj(cmd, PIB_HCA_ATTR_DM_QUERY_HANDLE, handle);
	fill_attr_out(cmd, PIB_HCA_ATTR_DM_QUERY_MMAP_OFFSET, &offset, sizeof(offset));
	fill_attr_out(cmd, PIB_HCA_ATTR_DM_QUERY_LENGTH, &length, sizeof(length));
	ret = execute_ioctl(context, cmd);
	if (ret)
		goto err;
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return NULL;
	dm->length = length;
	dm->verbs_dm.handle = handle;
	dm->verbs_dm.dm.context = context;
	ret = pib_map_dm(dm, context, offset);
	if (!ret)
		return &dm->verbs_dm.dm;
	free(dm);
err:
	errno = ret;
	return NULL;
}

/* The device memory stays with the process that has allocated it. */
void pib_unimport_dm(struct ibv_dm *ibdm)
{
	struct pib_dm *dm = to_pdm(ibdm);

	munmap(dm->map, pib_dm_mapped(dm));
	free(dm);
}

int pib_free_dm(struct ibv_dm *ibdm)
{
	struct pib_dm *dm = to_pdm(ibdm);
	int ret;

	/* The kernel refuses while a region uses the memory. */
	ret = ibv_cmd_free_dm(&dm->verbs_dm);
	if (ret)
		return ret;
	pib_unimport_dm(ibdm);
	return 0;
}

struct ibv_mr *pib_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibdm, uint64_t offset,
			     size_t length, unsigned int access)
{
	struct verbs_mr *vmr;
	int ret;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;
	ret = ibv_cmd_reg_dm_mr(pd, &to_pdm(ibdm)->verbs_dm, offset, length, access, vmr, NULL);
	if (ret) {
		free(vmr);
		errno = ret;
		return NULL;
	}
	return &vmr->ibv_mr;
}
