// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The files in /sys/kernel/debug/pib_hca/PCI-ADDRESS. They show the device's view of this driver's
 * objects, the device's last refusals and its registers, as the device has them at each read. A
 * read of "selftest" tests a register and the interrupts. A write to "inject" raises an event, for
 * tests of applications. The files are for people: they change without notice, and no program
 * should parse them.
 */
#include <linux/debugfs.h>
#include <linux/iopoll.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "pib_hca.h"

static struct dentry *pib_hca_debugfs_root;

static const char *const pib_hca_qp_states[] = {
	"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR",
};

static const char *const pib_hca_mig_states[] = { "MIGRATED", "REARM", "ARMED" };

static const char *const pib_hca_key_kinds[] = {
	"region", "physical", "fast", "window-1", "window-2B", "on-demand",
};

static const char *pib_hca_name_of(const char *const *names, size_t count, u8 value)
{
	return value < count ? names[value] : "?";
}

/* Shows one object; an object that has been destroyed meanwhile is left out. */
typedef void (*pib_hca_show_fn)(struct seq_file *s, struct pib_hca_dev *dev, u32 number);

static void pib_hca_show_qp(struct seq_file *s, struct pib_hca_dev *dev, u32 qpn)
{
	struct pib_hca_query_qp_progress progress;
	struct pib_hca_modify_qp attr;

	if (pib_hca_cmd_query(dev, PIB_HCA_CMD_QUERY_QP, qpn, &attr, sizeof(attr)) ||
	    pib_hca_cmd_query(dev, PIB_HCA_CMD_QUERY_QP_PROGRESS, qpn, &progress,
			      sizeof(progress)))
		return;
	seq_printf(s, "qp %#x state %s mig %s port %u dest_qpn %#x dlid %u", qpn,
		   pib_hca_name_of(pib_hca_qp_states, ARRAY_SIZE(pib_hca_qp_states), attr.state),
		   pib_hca_name_of(pib_hca_mig_states, ARRAY_SIZE(pib_hca_mig_states),
				   attr.path_mig_state),
		   attr.port,
		   le32_to_cpu(attr.dest_qpn), le16_to_cpu(attr.av.dlid));
	seq_printf(s, " sq %u/%u rq %u/%u window %u", le32_to_cpu(progress.sq_consumer),
		   le32_to_cpu(progress.sq_producer), le32_to_cpu(progress.rq_consumer),
		   le32_to_cpu(progress.rq_producer), le32_to_cpu(progress.in_window));
	seq_printf(s, " una %#x sent_end %#x next %#x expected %#x msn %#x",
		   le32_to_cpu(progress.una), le32_to_cpu(progress.sent_end),
		   le32_to_cpu(progress.next_psn), le32_to_cpu(progress.expected_psn),
		   le32_to_cpu(progress.msn));
	seq_printf(s, " retries %u rnr_retries %u rd %u timer %u\n", progress.retries_left,
		   progress.rnr_retries_left, progress.rd_outstanding, progress.timer);
}

static void pib_hca_show_cq(struct seq_file *s, struct pib_hca_dev *dev, u32 cqn)
{
	struct pib_hca_query_cq cq;

	if (pib_hca_cmd_query(dev, PIB_HCA_CMD_QUERY_CQ, cqn, &cq, sizeof(cq)))
		return;
	seq_printf(s, "cq %u eq %u uar %u depth %u producer %u consumer %u", cqn,
		   le32_to_cpu(cq.eqn), le32_to_cpu(cq.uar), 1U << cq.log_depth,
		   le32_to_cpu(cq.producer), le32_to_cpu(cq.consumer));
	seq_printf(s, " armed %u error %u users %u moderation %u/%uus\n", cq.armed, cq.error,
		   le32_to_cpu(cq.users), le16_to_cpu(cq.moderation_count),
		   le16_to_cpu(cq.moderation_period));
}

static void pib_hca_show_srq(struct seq_file *s, struct pib_hca_dev *dev, u32 srqn)
{
	struct pib_hca_query_srq srq;

	if (pib_hca_cmd_query(dev, PIB_HCA_CMD_QUERY_SRQ, srqn, &srq, sizeof(srq)))
		return;
	seq_printf(s, "srq %u waiting %u limit %u\n", srqn, le32_to_cpu(srq.waiting),
		   le32_to_cpu(srq.limit));
}

static void pib_hca_show_eq(struct seq_file *s, struct pib_hca_dev *dev, u32 eqn)
{
	struct pib_hca_query_eq eq;

	if (pib_hca_cmd_query(dev, PIB_HCA_CMD_QUERY_EQ, eqn, &eq, sizeof(eq)))
		return;
	seq_printf(s, "eq %u vector %u depth %u producer %u consumer %u armed %u async %u cqs %u\n",
		   eqn, le32_to_cpu(eq.vector), 1U << eq.log_depth, le32_to_cpu(eq.producer),
		   le32_to_cpu(eq.consumer), eq.armed, !!(eq.flags & PIB_HCA_EQ_ASYNC),
		   le32_to_cpu(eq.users));
}

static void pib_hca_show_key(struct seq_file *s, struct pib_hca_dev *dev, u32 index)
{
	struct pib_hca_query_key key;

	if (pib_hca_cmd_query(dev, PIB_HCA_CMD_QUERY_KEY, index << PIB_HCA_KEY_INDEX_SHIFT,
			      &key, sizeof(key)))
		return;
	seq_printf(s, "mr %#x %s pd %u addr %#llx length %llu access %#x valid %u\n",
		   le32_to_cpu(key.key),
		   pib_hca_name_of(pib_hca_key_kinds, ARRAY_SIZE(pib_hca_key_kinds), key.kind),
		   le32_to_cpu(key.pd), le64_to_cpu(key.addr), le64_to_cpu(key.length),
		   le32_to_cpu(key.access), key.valid);
}

/*
 * Queries the device for each object that the driver has. After an error the device may have lost
 * an object that the driver still has.
 */
static void pib_hca_show_all(struct seq_file *s, struct xarray *objects, pib_hca_show_fn show)
{
	struct pib_hca_dev *dev = s->private;
	unsigned long number;
	void *entry;

	xa_for_each(objects, number, entry)
		show(s, dev, number);
}

static int qps_show(struct seq_file *s, void *unused)
{
	struct pib_hca_dev *dev = s->private;

	pib_hca_show_all(s, &dev->qps, pib_hca_show_qp);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(qps);

static int cqs_show(struct seq_file *s, void *unused)
{
	struct pib_hca_dev *dev = s->private;

	pib_hca_show_all(s, &dev->cqs, pib_hca_show_cq);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(cqs);

static int srqs_show(struct seq_file *s, void *unused)
{
	struct pib_hca_dev *dev = s->private;

	pib_hca_show_all(s, &dev->srqs, pib_hca_show_srq);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(srqs);

static int mrs_show(struct seq_file *s, void *unused)
{
	struct pib_hca_dev *dev = s->private;

	pib_hca_show_all(s, &dev->keys, pib_hca_show_key);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(mrs);

static int eqs_show(struct seq_file *s, void *unused)
{
	struct pib_hca_dev *dev = s->private;
	u32 i;

	for (i = 0; i < dev->eq_count; i++)
		pib_hca_show_eq(s, dev, dev->eqs[i].eqn);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(eqs);

static void pib_hca_print_refusal(struct seq_file *s, const struct pib_hca_refusal *refusal)
{
	u32 ns;
	u64 time = div_u64_rem(le64_to_cpu(refusal->time), NSEC_PER_SEC, &ns);

	seq_printf(s, "%llu at %llu.%06us: %.*s\n", le64_to_cpu(refusal->number), time, ns / 1000,
		   (int)sizeof(refusal->text), (const char *)refusal->text);
}

/*
 * Reads the refusals from the newest to the oldest one and returns their number, or a negative
 * errno. A refusal that happens in between moves the others up by one index: one is read twice,
 * none is missed. An index without a refusal has number 0.
 */
static int pib_hca_read_refusals(struct pib_hca_dev *dev, struct pib_hca_refusal *refusals)
{
	u64 number, oldest = U64_MAX;
	int count = 0, ret;
	u32 index;

	for (index = 0; index < PIB_HCA_REFUSALS_KEPT; index++) {
		ret = pib_hca_cmd_query(dev, PIB_HCA_CMD_QUERY_REFUSAL, index, &refusals[count],
					sizeof(*refusals));
		if (ret)
			return ret;
		number = le64_to_cpu(refusals[count].number);
		if (!number)
			break;
		if (number >= oldest)
			continue;
		oldest = number;
		count++;
	}
	return count;
}

/* Shows the refusals from the oldest to the newest one. */
static int refusals_show(struct seq_file *s, void *unused)
{
	struct pib_hca_refusal *refusals;
	int count;

	refusals = kvcalloc(PIB_HCA_REFUSALS_KEPT, sizeof(*refusals), GFP_KERNEL);
	if (!refusals)
		return -ENOMEM;
	count = pib_hca_read_refusals(s->private, refusals);
	for (int i = count - 1; i >= 0; i--)
		pib_hca_print_refusal(s, &refusals[i]);
	kvfree(refusals);
	return min(count, 0);
}
DEFINE_SHOW_ATTRIBUTE(refusals);

/* ---------------------------------------------------------------- injected events ------------ */

static const struct {
	const char *name;
	u8 type;
	u32 port_flags;
} pib_hca_injections[] = {
	{ "cq_error", PIB_HCA_EVENT_CQ_ERROR },
	{ "qp_fatal", PIB_HCA_EVENT_QP_FATAL },
	{ "qp_request_error", PIB_HCA_EVENT_QP_REQUEST_ERROR },
	{ "qp_access_error", PIB_HCA_EVENT_QP_ACCESS_ERROR },
	{ "communication_established", PIB_HCA_EVENT_COMM_ESTABLISHED },
	{ "sq_drained", PIB_HCA_EVENT_SQ_DRAINED },
	{ "path_migrated", PIB_HCA_EVENT_PATH_MIGRATED },
	{ "path_mig_failed", PIB_HCA_EVENT_PATH_MIG_FAILED },
	{ "last_wqe_reached", PIB_HCA_EVENT_LAST_WQE_REACHED },
	{ "srq_error", PIB_HCA_EVENT_SRQ_ERROR },
	{ "srq_limit_reached", PIB_HCA_EVENT_SRQ_LIMIT_REACHED },
	{ "device_fatal", PIB_HCA_EVENT_DEVICE_FATAL },
	{ "port_active", PIB_HCA_EVENT_PORT, PIB_HCA_PORT_EVENT_ACTIVE },
	{ "port_error", PIB_HCA_EVENT_PORT, PIB_HCA_PORT_EVENT_ERROR },
	{ "lid_change", PIB_HCA_EVENT_PORT, PIB_HCA_PORT_EVENT_LID_CHANGE },
	{ "pkey_change", PIB_HCA_EVENT_PORT, PIB_HCA_PORT_EVENT_PKEY_CHANGE },
	{ "sm_change", PIB_HCA_EVENT_PORT, PIB_HCA_PORT_EVENT_SM_CHANGE },
	{ "client_reregister", PIB_HCA_EVENT_PORT, PIB_HCA_PORT_EVENT_CLIENT_REREGISTER },
	{ "gid_change", PIB_HCA_EVENT_PORT, PIB_HCA_PORT_EVENT_GID_CHANGE },
};

static int pib_hca_inject(struct pib_hca_dev *dev, const char *name, u32 number)
{
	struct pib_hca_inject_event in = {};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(pib_hca_injections); i++) {
		if (strcmp(name, pib_hca_injections[i].name))
			continue;
		in.type = pib_hca_injections[i].type;
		in.data = cpu_to_le32(pib_hca_injections[i].port_flags);
		if (in.type == PIB_HCA_EVENT_PORT) {
			if (number > U8_MAX)
				return -EINVAL;
			in.port = number;
			number = 0;
		}
		return pib_hca_cmd_set(dev, PIB_HCA_CMD_INJECT_EVENT, number, &in, sizeof(in));
	}
	return -EINVAL;
}

/* The text is "EVENT NUMBER": the number is a QPN, CQN, SRQN or port, or 0 for device_fatal. */
static ssize_t pib_hca_inject_write(struct file *file, const char __user *buf, size_t count,
				    loff_t *offset)
{
	char text[64], name[32];
	int number, ret;

	if (count >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, buf, count))
		return -EFAULT;
	text[count] = 0;
	if (sscanf(text, "%31s %i", name, &number) != 2 || number < 0)
		return -EINVAL;
	ret = pib_hca_inject(file_inode(file)->i_private, name, number);
	return ret ?: count;
}

static int inject_show(struct seq_file *s, void *unused)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(pib_hca_injections); i++)
		seq_printf(s, "%s\n", pib_hca_injections[i].name);
	return 0;
}

static int pib_hca_inject_open(struct inode *inode, struct file *file)
{
	return single_open(file, inject_show, inode->i_private);
}

static const struct file_operations pib_hca_inject_fops = {
	.owner = THIS_MODULE,
	.open = pib_hca_inject_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.write = pib_hca_inject_write,
	.release = single_release,
};

/* ---------------------------------------------------------------- registers ------------------ */

/* All registers that can be read. A 64-bit register is two halves, as on a 32-bit bus. */
static const struct debugfs_reg32 pib_hca_registers[] = {
	{ "version", PIB_HCA_REG_VERSION },
	{ "control", PIB_HCA_REG_CONTROL },
	{ "status", PIB_HCA_REG_STATUS },
	{ "fatal_cause", PIB_HCA_REG_FATAL_CAUSE },
	{ "port_count", PIB_HCA_REG_PORT_COUNT },
	{ "vector_count", PIB_HCA_REG_VECTOR_COUNT },
	{ "uar_count", PIB_HCA_REG_UAR_COUNT },
	{ "scratch", PIB_HCA_REG_SCRATCH },
	{ "cmdq_base_low", PIB_HCA_REG_CMDQ_BASE },
	{ "cmdq_base_high", PIB_HCA_REG_CMDQ_BASE + 4 },
	{ "cmdq_cpl_base_low", PIB_HCA_REG_CMDQ_CPL_BASE },
	{ "cmdq_cpl_base_high", PIB_HCA_REG_CMDQ_CPL_BASE + 4 },
	{ "cmdq_log_depth", PIB_HCA_REG_CMDQ_LOG_DEPTH },
	{ "cmdq_consumed", PIB_HCA_REG_CMDQ_CONSUMED },
	{ "clock_low", PIB_HCA_REG_CLOCK },
	{ "clock_high", PIB_HCA_REG_CLOCK + 4 },
	{ "node_guid_low", PIB_HCA_REG_NODE_GUID },
	{ "node_guid_high", PIB_HCA_REG_NODE_GUID + 4 },
};

static void pib_hca_add_registers(struct pib_hca_dev *dev)
{
	dev->registers.regs = pib_hca_registers;
	dev->registers.nregs = ARRAY_SIZE(pib_hca_registers);
	dev->registers.base = dev->regs;
	debugfs_create_regset32("registers", 0400, dev->debugfs, &dev->registers);
}

/* ---------------------------------------------------------------- self-test ------------------ */

static bool pib_hca_register_keeps(struct pib_hca_dev *dev, u32 value)
{
	pib_hca_write(dev, PIB_HCA_REG_SCRATCH, value);
	return pib_hca_read(dev, PIB_HCA_REG_SCRATCH) == value;
}

/* Returns whether an interrupt has come by the vector within 1 s after it was raised. */
static bool pib_hca_vector_interrupts(struct pib_hca_dev *dev, u32 vector)
{
	u32 before = READ_ONCE(dev->eqs[vector].interrupts);
	u32 now;

	pib_hca_write(dev, PIB_HCA_REG_TEST_IRQ, vector);
	return !read_poll_timeout(READ_ONCE, now, now != before, 100, USEC_PER_SEC, false,
				  dev->eqs[vector].interrupts);
}

static int selftest_show(struct seq_file *s, void *unused)
{
	struct pib_hca_dev *dev = s->private;
	bool kept = pib_hca_register_keeps(dev, 0x5aa5f00f) && pib_hca_register_keeps(dev, 0);
	u32 i;

	seq_printf(s, "registers %s\n", kept ? "ok" : "failed");
	for (i = 0; i < dev->vector_count; i++)
		seq_printf(s, "vector %u %s\n", i,
			   pib_hca_vector_interrupts(dev, i) ? "ok" : "without an interrupt");
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(selftest);

/* ---------------------------------------------------------------- registration --------------- */

/* Best effort: on -ENOMEM the key is only missing from debugfs. */
void pib_hca_debugfs_key_add(struct pib_hca_dev *dev, u32 key, void *owner)
{
	xa_store_irq(&dev->keys, key >> PIB_HCA_KEY_INDEX_SHIFT, owner, GFP_KERNEL);
}

void pib_hca_debugfs_key_remove(struct pib_hca_dev *dev, u32 key, void *owner)
{
	xa_cmpxchg_irq(&dev->keys, key >> PIB_HCA_KEY_INDEX_SHIFT, owner, NULL, GFP_KERNEL);
}

void pib_hca_debugfs_add(struct pib_hca_dev *dev)
{
	/* Named by PCI address: an IB device may be renamed, and another one may get its name. */
	struct dentry *dir = debugfs_create_dir(pci_name(dev->pdev), pib_hca_debugfs_root);

	dev->debugfs = dir;
	debugfs_create_file("qps", 0400, dir, dev, &qps_fops);
	debugfs_create_file("cqs", 0400, dir, dev, &cqs_fops);
	debugfs_create_file("srqs", 0400, dir, dev, &srqs_fops);
	debugfs_create_file("mrs", 0400, dir, dev, &mrs_fops);
	debugfs_create_file("eqs", 0400, dir, dev, &eqs_fops);
	debugfs_create_atomic_t("odp_tables", 0400, dir, &dev->odp.tables);
	pib_hca_add_registers(dev);
	debugfs_create_file("selftest", 0400, dir, dev, &selftest_fops);
	if (le64_to_cpu(dev->caps.feature_flags) & PIB_HCA_FEATURE_REFUSALS)
		debugfs_create_file("refusals", 0400, dir, dev, &refusals_fops);
	if (le64_to_cpu(dev->caps.feature_flags) & PIB_HCA_FEATURE_INJECT)
		debugfs_create_file("inject", 0600, dir, dev, &pib_hca_inject_fops);
}

/* Removes the files; waits until no file is being read or written. */
void pib_hca_debugfs_remove(struct pib_hca_dev *dev)
{
	debugfs_remove_recursive(dev->debugfs);
	dev->debugfs = NULL;
}

void pib_hca_debugfs_init(void)
{
	pib_hca_debugfs_root = debugfs_create_dir(PIB_HCA_NAME, NULL);
}

void pib_hca_debugfs_exit(void)
{
	debugfs_remove_recursive(pib_hca_debugfs_root);
}
