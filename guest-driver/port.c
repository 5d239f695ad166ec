// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The device and its ports as verbs show them (IBA vol. 1, 11.2.1). */
#include <rdma/ib_mad.h>

#include "pib_hca.h"

/* ---------------------------------------------------------------- device --------------------- */

static void pib_hca_fill_identity(struct ib_device_attr *attr,
				  const struct pib_hca_query_device *caps)
{
	memcpy(&attr->sys_image_guid, caps->sys_image_guid, sizeof(attr->sys_image_guid));
	attr->fw_ver = le64_to_cpu(caps->fw_version);
	attr->vendor_id = le32_to_cpu(caps->vendor_id);
	attr->vendor_part_id = le32_to_cpu(caps->vendor_part_id);
	attr->hw_ver = le32_to_cpu(caps->hw_version);
	attr->local_ca_ack_delay = caps->local_ca_ack_delay;
	attr->max_pkeys = le32_to_cpu(caps->max_pkeys);
}

static void pib_hca_fill_limits(struct ib_device_attr *attr,
				const struct pib_hca_query_device *caps)
{
	attr->max_mr_size = le64_to_cpu(caps->max_mr_size);
	attr->page_size_cap = le64_to_cpu(caps->page_size_cap);
	attr->max_qp = le32_to_cpu(caps->max_qp);
	attr->max_qp_wr = le32_to_cpu(caps->max_qp_wr);
	attr->max_send_sge = le32_to_cpu(caps->max_sge);
	attr->max_recv_sge = le32_to_cpu(caps->max_sge);
	attr->max_sge_rd = le32_to_cpu(caps->max_sge_rd);
	attr->max_cq = le32_to_cpu(caps->max_cq);
	attr->max_cqe = le32_to_cpu(caps->max_cqe);
	attr->max_mr = le32_to_cpu(caps->max_mr);
	attr->max_mw = le32_to_cpu(caps->max_mw);
	attr->max_fast_reg_page_list_len = le32_to_cpu(caps->max_fast_reg_pages);
	attr->max_srq = le32_to_cpu(caps->max_srq);
	attr->max_srq_wr = le32_to_cpu(caps->max_srq_wr);
	attr->max_srq_sge = le32_to_cpu(caps->max_srq_sge);
	attr->max_pd = le32_to_cpu(caps->max_pd);
	attr->max_qp_rd_atom = le32_to_cpu(caps->max_qp_rd_atom);
	attr->max_qp_init_rd_atom = le32_to_cpu(caps->max_qp_init_rd_atom);
	attr->max_res_rd_atom = le32_to_cpu(caps->max_res_rd_atom);
	attr->max_mcast_grp = le32_to_cpu(caps->max_mcast_grp);
	attr->max_mcast_qp_attach = le32_to_cpu(caps->max_mcast_qp_attach);
	attr->max_total_mcast_qp_attach = le32_to_cpu(caps->max_total_mcast_qp_attach);
	attr->max_ah = INT_MAX; /* the device has no address handles */
	/* No IB_ATOMIC_GLOB: atomics exclude no other device's accesses (IBA vol. 1, 10.7.2.3). */
	attr->atomic_cap = IB_ATOMIC_HCA;
	attr->masked_atomic_cap =
		le64_to_cpu(caps->feature_flags) & PIB_HCA_FEATURE_MASKED_ATOMICS ?
			IB_ATOMIC_HCA :
			IB_ATOMIC_NONE;
}

static u64 pib_hca_cap_flags(u64 features)
{
	u64 flags = IB_DEVICE_BAD_PKEY_CNTR | IB_DEVICE_BAD_QKEY_CNTR |
		    IB_DEVICE_UD_AV_PORT_ENFORCE | IB_DEVICE_CURR_QP_STATE_MOD |
		    IB_DEVICE_PORT_ACTIVE_EVENT | IB_DEVICE_SYS_IMAGE_GUID |
		    IB_DEVICE_RC_RNR_NAK_GEN | IB_DEVICE_SRQ_RESIZE | IB_DEVICE_XRC;

	if (features & PIB_HCA_FEATURE_APM)
		flags |= IB_DEVICE_AUTO_PATH_MIG;
	if (features & PIB_HCA_FEATURE_MEM_MGT_EXTENSIONS)
		flags |= IB_DEVICE_MEM_MGT_EXTENSIONS;
	if (features & PIB_HCA_FEATURE_MW_TYPE_1)
		flags |= IB_DEVICE_MEM_WINDOW;
	if (features & PIB_HCA_FEATURE_MW_TYPE_2B)
		flags |= IB_DEVICE_MEM_WINDOW_TYPE_2B;
	if (features & PIB_HCA_FEATURE_FLUSH_GLOBAL)
		flags |= IB_DEVICE_FLUSH_GLOBAL;
	if (features & PIB_HCA_FEATURE_ATOMIC_WRITE)
		flags |= IB_DEVICE_ATOMIC_WRITE;
	return flags;
}

int pib_hca_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
			 struct ib_udata *udata)
{
	struct pib_hca_dev *dev = to_pdev(ibdev);
	int ret;

	ret = pib_hca_udata_no_input(udata);
	if (ret)
		return ret;
	memset(attr, 0, sizeof(*attr));
	attr->max_dm_size = dev->dm.bytes;
	pib_hca_fill_identity(attr, &dev->caps);
	pib_hca_fill_limits(attr, &dev->caps);
	attr->cq_caps.max_cq_moderation_count = U16_MAX;
	attr->cq_caps.max_cq_moderation_period = U16_MAX;
	attr->device_cap_flags = pib_hca_cap_flags(le64_to_cpu(dev->caps.feature_flags));
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	attr->timestamp_mask = U64_MAX;
	attr->hca_core_clock = NSEC_PER_MSEC; /* kHz: the device's clock counts nanoseconds */
	pib_hca_odp_caps(dev, attr);
	return 0;
}

/*
 * Copies a node description without the newline at its end, and fills the rest of `to` with zeros.
 * "echo NAME > node_desc" in sysfs ends with a newline, which the core passes on and which MADs
 * must not have.
 */
static void pib_hca_copy_node_desc(u8 *to, const char *from)
{
	size_t length = strnlen(from, IB_DEVICE_NODE_DESC_MAX);

	while (length && from[length - 1] == '\n')
		length--;
	memset(to, 0, IB_DEVICE_NODE_DESC_MAX);
	memcpy(to, from, length);
}

int pib_hca_modify_device(struct ib_device *ibdev, int mask, struct ib_device_modify *props)
{
	__be64 guid = cpu_to_be64(props->sys_image_guid);
	struct pib_hca_modify_device in = {};
	struct pib_hca_dev *dev = to_pdev(ibdev);
	int ret;

	if (mask & ~(IB_DEVICE_MODIFY_SYS_IMAGE_GUID | IB_DEVICE_MODIFY_NODE_DESC))
		return -EOPNOTSUPP;
	if (mask & IB_DEVICE_MODIFY_SYS_IMAGE_GUID)
		in.mask |= cpu_to_le32(PIB_HCA_MODIFY_DEVICE_SYS_IMAGE_GUID);
	if (mask & IB_DEVICE_MODIFY_NODE_DESC)
		in.mask |= cpu_to_le32(PIB_HCA_MODIFY_DEVICE_NODE_DESC);
	BUILD_BUG_ON(sizeof(in.sys_image_guid) != sizeof(guid));
	memcpy(in.sys_image_guid, &guid, sizeof(in.sys_image_guid));
	BUILD_BUG_ON(sizeof(in.node_description) != sizeof(props->node_desc));
	pib_hca_copy_node_desc(in.node_description, props->node_desc);
	/* Serialise concurrent writers, so that device and core keep the same values. */
	mutex_lock(&dev->modify_mutex);
	ret = pib_hca_cmd_set(dev, PIB_HCA_CMD_MODIFY_DEVICE, 0, &in, sizeof(in));
	if (!ret && (mask & IB_DEVICE_MODIFY_SYS_IMAGE_GUID))
		ibdev->attrs.sys_image_guid = guid;
	if (!ret && (mask & IB_DEVICE_MODIFY_NODE_DESC))
		memcpy(ibdev->node_desc, in.node_description, sizeof(ibdev->node_desc));
	mutex_unlock(&dev->modify_mutex);
	return ret;
}

void pib_hca_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	u64 version = le64_to_cpu(to_pdev(ibdev)->caps.fw_version);

	snprintf(str, IB_FW_VERSION_NAME_MAX, "%u.%u.%u", (u32)(version >> 32) & 0xffff,
		 (u32)(version >> 16) & 0xffff, (u32)version & 0xffff);
}

/* ---------------------------------------------------------------- ports ---------------------- */

static const struct {
	u8 device;
	u16 core;
} pib_hca_speeds_ext[] = {
	{ 8, IB_SPEED_NDR },
	{ 4, IB_SPEED_HDR },
	{ 2, IB_SPEED_EDR },
	{ 1, IB_SPEED_FDR },
};

/* A LinkSpeedExtActive that is not zero overrides LinkSpeedActive (IBA vol. 1, 14.2.5.6). */
static u16 pib_hca_active_speed(const struct pib_hca_query_port *port)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(pib_hca_speeds_ext); i++)
		if (port->active_speed_ext == pib_hca_speeds_ext[i].device)
			return pib_hca_speeds_ext[i].core;
	return port->active_speed;
}

static int pib_hca_query_port_cmd(struct ib_device *ibdev, u32 port,
				  struct pib_hca_query_port *out)
{
	return pib_hca_cmd_query(to_pdev(ibdev), PIB_HCA_CMD_QUERY_PORT, port, out, sizeof(*out));
}

int pib_hca_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct pib_hca_query_port out;
	int ret;

	ret = pib_hca_query_port_cmd(ibdev, port, &out);
	if (ret)
		return ret;
	/* The core has zeroed *attr and fills in the subnet prefix. */
	attr->state = out.state;
	attr->phys_state = out.phys_state;
	attr->max_mtu = out.max_mtu;
	attr->active_mtu = out.active_mtu;
	attr->gid_tbl_len = le16_to_cpu(out.gid_table_length);
	attr->pkey_tbl_len = le16_to_cpu(out.pkey_table_length);
	attr->port_cap_flags = le32_to_cpu(out.capability_mask);
	attr->port_cap_flags2 = le16_to_cpu(out.capability_mask2);
	attr->max_msg_sz = le32_to_cpu(out.max_msg_size);
	attr->bad_pkey_cntr = le32_to_cpu(out.bad_pkey_count);
	attr->qkey_viol_cntr = le32_to_cpu(out.qkey_violation_count);
	attr->lid = le16_to_cpu(out.lid);
	attr->lmc = out.lmc;
	attr->sm_lid = le16_to_cpu(out.sm_lid);
	attr->sm_sl = out.sm_sl;
	attr->max_vl_num = out.max_vl_count;
	attr->subnet_timeout = out.subnet_timeout;
	attr->init_type_reply = out.init_type_reply;
	attr->active_width = out.active_width;
	attr->active_speed = pib_hca_active_speed(&out);
	return 0;
}

int pib_hca_modify_port(struct ib_device *ibdev, u32 port, int mask,
			struct ib_port_modify *props)
{
	struct pib_hca_modify_port in = {
		.set_capability_mask = cpu_to_le32(props->set_port_cap_mask),
		.clear_capability_mask = cpu_to_le32(props->clr_port_cap_mask),
	};

	if (mask & ~IB_PORT_RESET_QKEY_CNTR)
		return -EOPNOTSUPP;
	if (mask & IB_PORT_RESET_QKEY_CNTR)
		in.flags = cpu_to_le32(PIB_HCA_MODIFY_PORT_RESET_QKEY_COUNT);
	return pib_hca_cmd_set(to_pdev(ibdev), PIB_HCA_CMD_MODIFY_PORT, port, &in, sizeof(in));
}

/*
 * Reads one entry of a table that a query returns as a whole. Devices up to interface version 1.1
 * require room for the whole table. The core requests only entries within the lengths of
 * QUERY_PORT.
 */
static int pib_hca_query_table(struct ib_device *ibdev, u16 opcode, u32 port, u32 index,
			       void *entry, u32 entry_size)
{
	void *table;
	int ret;

	if ((index + 1) * entry_size > PIB_HCA_CMD_MAX_LENGTH)
		return -EINVAL;
	table = kzalloc(PIB_HCA_CMD_MAX_LENGTH, GFP_KERNEL);
	if (!table)
		return -ENOMEM;
	ret = pib_hca_cmd_query(to_pdev(ibdev), opcode, port, table, PIB_HCA_CMD_MAX_LENGTH);
	if (!ret)
		memcpy(entry, table + index * entry_size, entry_size);
	kfree(table);
	return ret;
}

int pib_hca_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	__le16 entry;
	int ret;

	ret = pib_hca_query_table(ibdev, PIB_HCA_CMD_QUERY_PKEYS, port, index, &entry,
				  sizeof(entry));
	if (!ret)
		*pkey = le16_to_cpu(entry);
	return ret;
}

int pib_hca_query_gid(struct ib_device *ibdev, u32 port, int index, union ib_gid *gid)
{
	return pib_hca_query_table(ibdev, PIB_HCA_CMD_QUERY_GIDS, port, index, gid->raw,
				   sizeof(gid->raw));
}

int pib_hca_get_port_immutable(struct ib_device *ibdev, u32 port,
			       struct ib_port_immutable *immutable)
{
	struct pib_hca_query_port out;
	int ret;

	ret = pib_hca_query_port_cmd(ibdev, port, &out);
	if (ret)
		return ret;
	immutable->pkey_tbl_len = le16_to_cpu(out.pkey_table_length);
	immutable->gid_tbl_len = le16_to_cpu(out.gid_table_length);
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_IB;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

enum rdma_link_layer pib_hca_get_link_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_INFINIBAND;
}
