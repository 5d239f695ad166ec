// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Test: a kernel consumer of a device that dies. Its add() keeps the driver in the registration of
 * the device until port 1 is Active. The subnet manager changes the port meanwhile; the consumer
 * must not get an event of that before the registration has ended. Writing to the parameter "leave"
 * unbinds the driver, and resets the device without the driver's knowledge: the value 1 resets it
 * just before the unbinding, so that the driver can tell the consumer, the value 2 when the
 * consumer's remove() has begun. The consumer leaves when its receives have been flushed, as ULPs
 * do. The log has "ok NAME" or "not ok NAME" of each check.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>

#include <rdma/ib_verbs.h>

#include "pib_hca_regs.h"

#define PORT 1
#define PATIENCE_MS 60000
#define PORT_PATIENCE_MS 240000
#define LATE_EVENT_MS 500 /* time for an event on its way to the consumer */

enum { STAY, RESET_BEFORE, RESET_WHILE_LEAVING };

/* QPs with one receive each. The direct CQ is the first, so the driver flushes it first. */
static struct end {
	const char *name;
	enum ib_poll_context context;
	struct ib_cq *cq;
	struct ib_qp *qp;
	struct ib_cqe cqe;
	struct completion done;
	enum ib_wc_status status;
} ends[] = {
	{ "flush_of_a_direct_cq", IB_POLL_DIRECT },
	{ "flush_in_a_softirq", IB_POLL_SOFTIRQ },
	{ "flush_in_a_work", IB_POLL_WORKQUEUE },
};

static struct ib_device *device; /* NULL without a consumer */
static void __iomem *regs;
static struct ib_pd *pd;
static struct ib_event_handler handler;
static DECLARE_COMPLETION(fatal);
static int leave;
static uint events; /* number of events of any kind since the module was loaded */
module_param(events, uint, 0444);

static void report(const char *name, bool good)
{
	pr_info("dying_client: %s %s\n", good ? "ok" : "not ok", name);
}

static void got_event(struct ib_event_handler *of, struct ib_event *event)
{
	WRITE_ONCE(events, events + 1);
	if (event->event == IB_EVENT_DEVICE_FATAL)
		complete(&fatal);
}

static void received(struct ib_cq *cq, struct ib_wc *wc)
{
	struct end *end = container_of(wc->wr_cqe, struct end, cqe);

	end->status = wc->status;
	complete(&end->done);
}

/* Resets the device in a way that raises no event and no interrupt. */
static void reset_device(void)
{
	writel(PIB_HCA_CONTROL_RESET, regs + PIB_HCA_REG_CONTROL);
}

/* ---------------------------------------------------------------- the consumer's objects ----- */

static int open_end(struct end *end)
{
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = PORT };
	struct ib_recv_wr wr = { .wr_cqe = &end->cqe };
	int ret;

	init_completion(&end->done);
	end->cqe.done = received;
	end->cq = ib_alloc_cq(device, NULL, 4, 0, end->context);
	if (IS_ERR(end->cq)) {
		ret = PTR_ERR(end->cq);
		end->cq = NULL;
		return ret;
	}
	init.send_cq = end->cq;
	init.recv_cq = end->cq;
	end->qp = ib_create_qp(pd, &init);
	if (IS_ERR(end->qp)) {
		ret = PTR_ERR(end->qp);
		end->qp = NULL;
		return ret;
	}
	ret = ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
			   IB_QP_ACCESS_FLAGS);
	return ret ?: ib_post_recv(end->qp, &wr, NULL);
}

static void close_end(struct end *end)
{
	if (end->qp)
		ib_destroy_qp(end->qp);
	if (end->cq)
		ib_free_cq(end->cq);
	end->qp = NULL;
	end->cq = NULL;
}

static void close_all(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(ends); i++)
		close_end(&ends[i]);
	ib_dealloc_pd(pd);
	iounmap(regs);
	device = NULL;
}

static int open_all(struct ib_device *dev)
{
	struct pci_dev *pdev = to_pci_dev(dev->dev.parent);
	int ret = 0, i;

	regs = ioremap(pci_resource_start(pdev, PIB_HCA_BAR_REGS), PAGE_SIZE);
	if (!regs)
		return -ENOMEM;
	pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(pd)) {
		iounmap(regs);
		return PTR_ERR(pd);
	}
	device = dev;
	for (i = 0; !ret && i < ARRAY_SIZE(ends); i++)
		ret = open_end(&ends[i]);
	if (ret)
		close_all();
	return ret;
}

/* ---------------------------------------------------------------- the consumer --------------- */

static bool port_becomes_active(struct ib_device *dev)
{
	struct ib_port_attr attr = {};
	int ms;

	for (ms = 0; ms < PORT_PATIENCE_MS; ms += 20) {
		if (!ib_query_port(dev, PORT, &attr) && attr.state == IB_PORT_ACTIVE)
			return true;
		msleep(20);
	}
	return false;
}

static int dying_client_add(struct ib_device *dev)
{
	uint before = events;
	int ret = open_all(dev);

	report("consumer", !ret);
	if (ret)
		return ret;
	leave = STAY;
	reinit_completion(&fatal);
	INIT_IB_EVENT_HANDLER(&handler, dev, got_event);
	ib_register_event_handler(&handler);
	report("port", port_becomes_active(dev));
	msleep(LATE_EVENT_MS);
	report("no_event_during_registration", READ_ONCE(events) == before);
	return 0;
}

static bool is_flushed(struct end *end)
{
	int ms;

	for (ms = 0; ms < PATIENCE_MS && !completion_done(&end->done); ms += 20) {
		if (end->context == IB_POLL_DIRECT)
			ib_process_cq_direct(end->cq, 1);
		msleep(20);
	}
	return completion_done(&end->done) && end->status == IB_WC_WR_FLUSH_ERR;
}

static void dying_client_remove(struct ib_device *dev, void *client_data)
{
	int i;

	if (leave == RESET_BEFORE)
		report("fatal_event",
		       wait_for_completion_timeout(&fatal, msecs_to_jiffies(PATIENCE_MS)));
	if (leave == RESET_WHILE_LEAVING)
		reset_device();
	for (i = 0; leave != STAY && i < ARRAY_SIZE(ends); i++)
		report(ends[i].name, is_flushed(&ends[i]));
	ib_unregister_event_handler(&handler);
	close_all();
}

static struct ib_client dying_client = {
	.name = "dying_client",
	.add = dying_client_add,
	.remove = dying_client_remove,
};

static int set_leave(const char *value, const struct kernel_param *param)
{
	struct device *parent;
	int ret = param_set_int(value, param);

	if (ret || !device)
		return ret ?: -ENODEV;
	parent = get_device(device->dev.parent);
	if (leave == RESET_BEFORE)
		reset_device();
	device_release_driver(parent);
	put_device(parent);
	return 0;
}

static const struct kernel_param_ops leave_ops = { .set = set_leave };
module_param_cb(leave, &leave_ops, &leave, 0200);

static int __init dying_client_init(void)
{
	return ib_register_client(&dying_client);
}
module_init(dying_client_init);

static void __exit dying_client_exit(void)
{
	ib_unregister_client(&dying_client);
}
module_exit(dying_client_exit);

MODULE_DESCRIPTION("Test: a kernel consumer of a device that dies");
MODULE_LICENSE("GPL");
