// SPDX-License-Identifier: GPL-2.0-or-later
#include "verbs.h"

#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_mad.h>
#include <rdma/uverbs_ioctl.h>

#include "pib_hca_abi.h"
#include "port.h"

static struct first *first_of(struct ib_device *ib)
{
	return container_of(ib, struct first, ib);
}

/* ---------------------------------------------------------------- device and ports ----------- */

static int verbs_query_device(struct ib_device *ib, struct ib_device_attr *attr,
			      struct ib_udata *udata)
{
	const struct pib_hca_query_device *device = &first_of(ib)->device;

	memset(attr, 0, sizeof(*attr));
	memcpy(&attr->sys_image_guid, device->sys_image_guid, sizeof(attr->sys_image_guid));
	attr->fw_ver = le64_to_cpu(device->fw_version);
	attr->vendor_id = le32_to_cpu(device->vendor_id);
	attr->vendor_part_id = le32_to_cpu(device->vendor_part_id);
	attr->hw_ver = le32_to_cpu(device->hw_version);
	attr->max_pkeys = le32_to_cpu(device->max_pkeys);
	return 0;
}

static int verbs_query_port(struct ib_device *ib, u32 number, struct ib_port_attr *attr)
{
	struct pib_hca_query_port port;
	int ret;

	ret = port_query(&first_of(ib)->commands, number, &port);
	if (ret)
		return ret;
	attr->state = port.state;
	attr->phys_state = port.phys_state;
	attr->max_mtu = port.max_mtu;
	attr->active_mtu = port.active_mtu;
	attr->gid_tbl_len = le16_to_cpu(port.gid_table_length);
	attr->pkey_tbl_len = le16_to_cpu(port.pkey_table_length);
	attr->port_cap_flags = le32_to_cpu(port.capability_mask);
	attr->max_msg_sz = le32_to_cpu(port.max_msg_size);
	attr->lid = le16_to_cpu(port.lid);
	attr->lmc = port.lmc;
	attr->sm_lid = le16_to_cpu(port.sm_lid);
	attr->sm_sl = port.sm_sl;
	attr->max_vl_num = port.max_vl_count;
	attr->subnet_timeout = port.subnet_timeout;
	attr->active_width = port.active_width;
	/* IB_SPEED_FDR and above are the values of LinkSpeedExtActive, 4 bits further left. */
	attr->active_speed = port.active_speed_ext ? port.active_speed_ext << 4 : port.active_speed;
	return 0;
}

static int verbs_port_immutable(struct ib_device *ib, u32 number,
				struct ib_port_immutable *immutable)
{
	struct ib_port_attr attr = {};
	int ret;

	ret = verbs_query_port(ib, number, &attr);
	if (ret)
		return ret;
	immutable->gid_tbl_len = attr.gid_tbl_len;
	immutable->pkey_tbl_len = attr.pkey_tbl_len;
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_IB;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static enum rdma_link_layer verbs_link_layer(struct ib_device *ib, u32 number)
{
	return IB_LINK_LAYER_INFINIBAND;
}

/* Reads one entry of a table. The device returns the table from its first entry on. */
static int query_entry(struct ib_device *ib, u16 opcode, u32 port, u32 index, void *entry,
		       u32 bytes)
{
	struct command command = { .opcode = opcode, .object = port };
	int ret;

	command.out_length = (index + 1) * bytes;
	if (command.out_length > PIB_HCA_CMD_MAX_LENGTH)
		return -EINVAL;
	command.out = kzalloc(command.out_length, GFP_KERNEL);
	if (!command.out)
		return -ENOMEM;
	ret = command_execute(&first_of(ib)->commands, &command, NULL);
	if (!ret)
		memcpy(entry, command.out + index * bytes, bytes);
	kfree(command.out);
	return ret;
}

static int verbs_query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	__le16 entry;
	int ret = query_entry(ib, PIB_HCA_CMD_QUERY_PKEYS, port, index, &entry, sizeof(entry));

	if (!ret)
		*pkey = le16_to_cpu(entry);
	return ret;
}

static int verbs_query_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)
{
	return query_entry(ib, PIB_HCA_CMD_QUERY_GIDS, port, index, gid->raw, sizeof(gid->raw));
}

/* ---------------------------------------------------------------- user contexts -------------- */

/* A UAR page, and its place in the files of processes. */
struct uar {
	struct rdma_user_mmap_entry entry;
	struct first *first;
	u32 number;
};

struct context {
	struct ib_ucontext ib;
	struct uar *uar;
};

static struct uar *uar_of(struct rdma_user_mmap_entry *entry)
{
	return container_of(entry, struct uar, entry);
}

static void verbs_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct uar *uar = uar_of(entry);

	command_destroy(&uar->first->commands, PIB_HCA_CMD_FREE_UAR, uar->number);
	kfree(uar);
}

static int alloc_uar(struct first *first, struct context *context)
{
	struct command command = { .opcode = PIB_HCA_CMD_ALLOC_UAR };
	struct uar *uar;
	int ret;

	uar = kzalloc(sizeof(*uar), GFP_KERNEL);
	if (!uar)
		return -ENOMEM;
	uar->first = first;
	ret = command_execute(&first->commands, &command, &uar->number);
	if (ret)
		goto err_free;
	ret = rdma_user_mmap_entry_insert(&context->ib, &uar->entry, PIB_HCA_UAR_PAGE_SIZE);
	if (ret)
		goto err_uar;
	context->uar = uar;
	return 0;

err_uar:
	command_destroy(&first->commands, PIB_HCA_CMD_FREE_UAR, uar->number);
err_free:
	kfree(uar);
	return ret;
}

/* Answers the provider as the manual's section 18 says. */
static int answer(struct first *first, struct uar *uar, struct ib_udata *udata)
{
	struct pib_hca_alloc_ucontext_resp resp = {
		.uar = uar->number,
		.uar_mmap_offset = rdma_user_mmap_get_offset(&uar->entry),
		.max_qp_wr = le32_to_cpu(first->device.max_qp_wr),
		.max_sge = le32_to_cpu(first->device.max_sge),
		.max_inline_data = le32_to_cpu(first->device.max_inline_data),
		.max_cqe = le32_to_cpu(first->device.max_cqe),
	};

	return ib_copy_to_udata(udata, &resp, min(sizeof(resp), udata->outlen));
}

static int verbs_alloc_context(struct ib_ucontext *ib, struct ib_udata *udata)
{
	struct context *context = container_of(ib, struct context, ib);
	struct pib_hca_alloc_ucontext_req req = {};
	struct first *first = first_of(ib->device);
	int ret;

	ret = ib_copy_from_udata(&req, udata, min(sizeof(req), udata->inlen));
	if (ret)
		return ret;
	if (req.comp_mask || req.reserved)
		return -EOPNOTSUPP;
	ret = alloc_uar(first, context);
	if (ret)
		return ret;
	ret = answer(first, context->uar, udata);
	if (ret)
		rdma_user_mmap_entry_remove(&context->uar->entry);
	return ret;
}

static void verbs_dealloc_context(struct ib_ucontext *ib)
{
	rdma_user_mmap_entry_remove(&container_of(ib, struct context, ib)->uar->entry);
}

/*
 * ib_core itself removes mappings and objects. Without this function it waits for processes to end.
 */
static void verbs_disassociate_context(struct ib_ucontext *ib)
{
}

static int verbs_mmap(struct ib_ucontext *ib, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry = rdma_user_mmap_entry_get(ib, vma);
	phys_addr_t page;
	int ret;

	if (!entry)
		return -EINVAL;
	page = pci_resource_start(first_of(ib->device)->hca.pdev, PIB_HCA_BAR_UAR) +
	       (phys_addr_t)uar_of(entry)->number * PIB_HCA_UAR_PAGE_SIZE;
	ret = rdma_user_mmap_io(ib, vma, page >> PAGE_SHIFT, PIB_HCA_UAR_PAGE_SIZE,
				pgprot_noncached(vma->vm_page_prot), entry);
	rdma_user_mmap_entry_put(entry);
	return ret;
}

/* ---------------------------------------------------------------- events --------------------- */

static const struct {
	u32 change;
	enum ib_event_type type;
} port_events[] = {
	{ PIB_HCA_PORT_EVENT_ERROR, IB_EVENT_PORT_ERR },
	{ PIB_HCA_PORT_EVENT_GID_CHANGE, IB_EVENT_GID_CHANGE },
	{ PIB_HCA_PORT_EVENT_LID_CHANGE, IB_EVENT_LID_CHANGE },
	{ PIB_HCA_PORT_EVENT_PKEY_CHANGE, IB_EVENT_PKEY_CHANGE },
	{ PIB_HCA_PORT_EVENT_SM_CHANGE, IB_EVENT_SM_CHANGE },
	{ PIB_HCA_PORT_EVENT_ACTIVE, IB_EVENT_PORT_ACTIVE },
	{ PIB_HCA_PORT_EVENT_CLIENT_REREGISTER, IB_EVENT_CLIENT_REREGISTER },
};

static void tell(struct first *first, u32 port, enum ib_event_type type)
{
	struct ib_event event = { .device = &first->ib, .element.port_num = port, .event = type };

	ib_dispatch_event(&event);
}

static void verbs_port_changed(struct event_queue *queue, u8 port, u32 changes)
{
	struct first *first = container_of(queue, struct first, events);
	int i;

	if (port < 1 || port > first->device.port_count)
		return;
	for (i = 0; i < (int)ARRAY_SIZE(port_events); i++)
		if (changes & port_events[i].change)
			tell(first, port, port_events[i].type);
}

/*
 * The device is registered, and ib_core has read its ports. An event makes it read them again, in
 * case they have changed since.
 */
static void begin_events(struct first *first)
{
	u32 port;

	WRITE_ONCE(first->events.port_changed, verbs_port_changed);
	for (port = 1; port <= first->device.port_count; port++)
		tell(first, port, IB_EVENT_LID_CHANGE);
}

/* ---------------------------------------------------------------- registration --------------- */

static const struct ib_device_ops verbs_ops = {
	.owner = THIS_MODULE,
	.uverbs_abi_ver = PIB_HCA_UVERBS_ABI_VERSION,

	.alloc_ucontext = verbs_alloc_context,
	.dealloc_ucontext = verbs_dealloc_context,
	.disassociate_ucontext = verbs_disassociate_context,
	.get_link_layer = verbs_link_layer,
	.get_port_immutable = verbs_port_immutable,
	.mmap = verbs_mmap,
	.mmap_free = verbs_mmap_free,
	.query_device = verbs_query_device,
	.query_gid = verbs_query_gid,
	.query_pkey = verbs_query_pkey,
	.query_port = verbs_query_port,

	INIT_RDMA_OBJ_SIZE(ib_ucontext, context, ib),
};

struct first *verbs_alloc(void)
{
	return ib_alloc_device(first, ib);
}

int verbs_register(struct first *first)
{
	struct device *parent = &first->hca.pdev->dev;
	struct ib_device *ib = &first->ib;
	int ret;

	ib->node_type = RDMA_NODE_IB_CA;
	ib->phys_port_cnt = first->device.port_count;
	ib->num_comp_vectors = 1;
	ib->dev.parent = parent;
	memcpy(&ib->node_guid, first->device.node_guid, sizeof(ib->node_guid));
	memcpy(ib->node_desc, first->device.node_description, sizeof(ib->node_desc));
	ib_set_device_ops(ib, &verbs_ops);
	ret = ib_register_device(ib, "first_%d", parent);
	if (!ret)
		begin_events(first);
	return ret;
}

void verbs_unregister(struct first *first)
{
	WRITE_ONCE(first->events.port_changed, NULL);
	synchronize_irq(pci_irq_vector(first->hca.pdev, 0));
	ib_unregister_device(&first->ib);
}
