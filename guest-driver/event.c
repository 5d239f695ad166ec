// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Events: passes each event queue entry to the object that it names (IBA vol. 1, 11.6.3). The
 * handlers of entries run in interrupt context.
 */
#include "pib_hca.h"

void pib_hca_dispatch(struct pib_hca_dev *dev, enum ib_event_type type, u32 port)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = type,
		.element.port_num = port,
	};

	/*
	 * The flag is set once the device is registered, and cleared before it is unregistered.
	 * pib_hca_events_stop() waits for the end of this section, which any context may enter: the
	 * health work and verbs report a device that has failed.
	 */
	rcu_read_lock();
	if (test_bit(PIB_HCA_DEV_EVENTS, &dev->flags))
		ib_dispatch_event(&event);
	rcu_read_unlock();
}

void pib_hca_events_stop(struct pib_hca_dev *dev)
{
	clear_bit(PIB_HCA_DEV_EVENTS, &dev->flags);
	synchronize_rcu();
	pib_hca_eqs_sync(dev);
}

/*
 * The core receives the events in this order: PORT_ACTIVE follows events that change its caches. It
 * handles each event in a work item of its own, so users may see another order. The core reports
 * each GID to them again when its cache has the GID.
 */
static const struct {
	u32 flag;
	enum ib_event_type type;
} pib_hca_port_events[] = {
	{ PIB_HCA_PORT_EVENT_ERROR, IB_EVENT_PORT_ERR },
	{ PIB_HCA_PORT_EVENT_GID_CHANGE, IB_EVENT_GID_CHANGE },
	{ PIB_HCA_PORT_EVENT_LID_CHANGE, IB_EVENT_LID_CHANGE },
	{ PIB_HCA_PORT_EVENT_PKEY_CHANGE, IB_EVENT_PKEY_CHANGE },
	{ PIB_HCA_PORT_EVENT_SM_CHANGE, IB_EVENT_SM_CHANGE },
	{ PIB_HCA_PORT_EVENT_ACTIVE, IB_EVENT_PORT_ACTIVE },
	{ PIB_HCA_PORT_EVENT_CLIENT_REREGISTER, IB_EVENT_CLIENT_REREGISTER },
};

/* Passes the port's events to the core, once the core accepts them. */
static void pib_hca_tell_port(struct pib_hca_dev *dev, u32 port)
{
	u32 flags, i;

	if (!test_bit(PIB_HCA_DEV_EVENTS, &dev->flags))
		return;
	flags = atomic_xchg(&dev->port_events[port - 1], 0);
	for (i = 0; i < ARRAY_SIZE(pib_hca_port_events); i++)
		if (flags & pib_hca_port_events[i].flag)
			pib_hca_dispatch(dev, pib_hca_port_events[i].type, port);
}

static void pib_hca_port_event(struct pib_hca_dev *dev, const struct pib_hca_eqe *eqe)
{
	if (!eqe->port || eqe->port > dev->caps.port_count)
		return;
	atomic_or(le32_to_cpu(eqe->data), &dev->port_events[eqe->port - 1]);
	smp_mb__after_atomic(); /* pairs with the barrier in pib_hca_events_start() */
	pib_hca_tell_port(dev, eqe->port);
}

void pib_hca_events_start(struct pib_hca_dev *dev)
{
	u32 port;

	set_bit(PIB_HCA_DEV_EVENTS, &dev->flags);
	smp_mb__after_atomic(); /* a handler sees the bit, or the loop sees the handler's flags */
	for (port = 1; port <= dev->caps.port_count; port++)
		pib_hca_tell_port(dev, port);
	if (pib_hca_is_dead(dev))
		pib_hca_dispatch(dev, IB_EVENT_DEVICE_FATAL, 0);
}

static void pib_hca_completion_event(struct pib_hca_dev *dev, const struct pib_hca_eqe *eqe)
{
	struct pib_hca_cq *cq = pib_hca_get_cq(dev, le32_to_cpu(eqe->number));

	if (!cq)
		return; /* destroyed before its event was handled */
	if (cq->ibcq.comp_handler)
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	pib_hca_ref_put(&cq->ref);
}

static void pib_hca_cq_error(struct pib_hca_dev *dev, const struct pib_hca_eqe *eqe)
{
	struct pib_hca_cq *cq = pib_hca_get_cq(dev, le32_to_cpu(eqe->number));
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = IB_EVENT_CQ_ERR,
	};

	if (!cq)
		return;
	event.element.cq = &cq->ibcq;
	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
	pib_hca_ref_put(&cq->ref);
}

static const enum ib_event_type pib_hca_qp_events[] = {
	[PIB_HCA_EVENT_PATH_MIGRATED] = IB_EVENT_PATH_MIG,
	[PIB_HCA_EVENT_COMM_ESTABLISHED] = IB_EVENT_COMM_EST,
	[PIB_HCA_EVENT_SQ_DRAINED] = IB_EVENT_SQ_DRAINED,
	[PIB_HCA_EVENT_QP_FATAL] = IB_EVENT_QP_FATAL,
	[PIB_HCA_EVENT_QP_REQUEST_ERROR] = IB_EVENT_QP_REQ_ERR,
	[PIB_HCA_EVENT_QP_ACCESS_ERROR] = IB_EVENT_QP_ACCESS_ERR,
	[PIB_HCA_EVENT_PATH_MIG_FAILED] = IB_EVENT_PATH_MIG_ERR,
	[PIB_HCA_EVENT_LAST_WQE_REACHED] = IB_EVENT_QP_LAST_WQE_REACHED,
};

static void pib_hca_tell_qp(struct pib_hca_qp *qp, enum ib_event_type type)
{
	struct ib_event event = {
		.device = qp->ibqp.device,
		.event = type,
		.element.qp = &qp->ibqp,
	};

	if (type == IB_EVENT_QP_LAST_WQE_REACHED)
		WRITE_ONCE(qp->last_wqe_told, true);
	if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
}

static void pib_hca_qp_event(struct pib_hca_dev *dev, const struct pib_hca_eqe *eqe)
{
	struct pib_hca_qp *qp = pib_hca_get_qp(dev, le32_to_cpu(eqe->number));

	if (!qp)
		return;
	pib_hca_tell_qp(qp, pib_hca_qp_events[eqe->type]);
	pib_hca_ref_put(&qp->ref);
}

void pib_hca_tell_last_wqe(struct pib_hca_qp *qp)
{
	if (!READ_ONCE(qp->last_wqe_told))
		pib_hca_tell_qp(qp, IB_EVENT_QP_LAST_WQE_REACHED);
}

static void pib_hca_srq_event(struct pib_hca_dev *dev, const struct pib_hca_eqe *eqe)
{
	struct pib_hca_srq *srq = pib_hca_get_srq(dev, le32_to_cpu(eqe->number));
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = eqe->type == PIB_HCA_EVENT_SRQ_ERROR ? IB_EVENT_SRQ_ERR :
								IB_EVENT_SRQ_LIMIT_REACHED,
	};

	if (!srq)
		return;
	event.element.srq = &srq->ibsrq;
	if (srq->ibsrq.event_handler)
		srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
	pib_hca_ref_put(&srq->ref);
}

static void pib_hca_command_event(struct pib_hca_dev *dev, const struct pib_hca_eqe *eqe)
{
	pib_hca_cmdq_reap(dev);
}

static void pib_hca_fatal_event(struct pib_hca_dev *dev, const struct pib_hca_eqe *eqe)
{
	dev_err(&dev->pdev->dev, "fatal error, cause %u\n", le32_to_cpu(eqe->data));
	pib_hca_die(dev, "the device reports a fatal error");
}

static void pib_hca_page_fault_event(struct pib_hca_dev *dev, const struct pib_hca_eqe *eqe)
{
	pib_hca_odp_event(dev);
}

typedef void (*pib_hca_event_fn)(struct pib_hca_dev *dev, const struct pib_hca_eqe *eqe);

static const pib_hca_event_fn pib_hca_event_handlers[] = {
	[PIB_HCA_EVENT_COMPLETION] = pib_hca_completion_event,
	[PIB_HCA_EVENT_PATH_MIGRATED] = pib_hca_qp_event,
	[PIB_HCA_EVENT_COMM_ESTABLISHED] = pib_hca_qp_event,
	[PIB_HCA_EVENT_SQ_DRAINED] = pib_hca_qp_event,
	[PIB_HCA_EVENT_CQ_ERROR] = pib_hca_cq_error,
	[PIB_HCA_EVENT_QP_FATAL] = pib_hca_qp_event,
	[PIB_HCA_EVENT_QP_REQUEST_ERROR] = pib_hca_qp_event,
	[PIB_HCA_EVENT_QP_ACCESS_ERROR] = pib_hca_qp_event,
	[PIB_HCA_EVENT_PATH_MIG_FAILED] = pib_hca_qp_event,
	[PIB_HCA_EVENT_PORT] = pib_hca_port_event,
	[PIB_HCA_EVENT_COMMAND] = pib_hca_command_event,
	[PIB_HCA_EVENT_DEVICE_FATAL] = pib_hca_fatal_event,
	[PIB_HCA_EVENT_SRQ_LIMIT_REACHED] = pib_hca_srq_event,
	[PIB_HCA_EVENT_SRQ_ERROR] = pib_hca_srq_event,
	[PIB_HCA_EVENT_LAST_WQE_REACHED] = pib_hca_qp_event,
	[PIB_HCA_EVENT_PAGE_FAULT] = pib_hca_page_fault_event,
};

void pib_hca_handle_event(struct pib_hca_dev *dev, const struct pib_hca_eqe *eqe)
{
	if (eqe->type < ARRAY_SIZE(pib_hca_event_handlers))
		pib_hca_event_handlers[eqe->type](dev, eqe);
	else
		dev_warn_ratelimited(&dev->pdev->dev, "unknown event %#x: update the driver\n",
				     eqe->type);
}
