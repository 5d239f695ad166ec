// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * On-demand paging: page faults of the device. One event announces them; pib_hca_odp_fetch()
 * fetches them until none is left. Each fault has its own work item, because a page on a slow file
 * server must not delay other faults.
 */
#include <linux/delay.h>

#include "pib_hca_odp.h"

#ifdef PIB_HCA_HAS_ODP

/* Bytes of a long access that one fault maps; the device faults again for the rest. */
#define PIB_HCA_ODP_FAULT_STEP SZ_2M
/* Delay before the device repeats an access for which pib_hca_may_work_later() is true. */
#define PIB_HCA_ODP_RETRY_MS 10

struct pib_hca_fault_work {
	struct work_struct work;
	struct pib_hca_dev *dev;
	struct pib_hca_page_fault fault;
	u64 birth; /* the waiting QP's pib_hca_qp.birth */
};

static bool pib_hca_may_work_later(int error)
{
	return error == -EAGAIN || error == -EBUSY || error == -ENOMEM || error == -EINTR;
}

/* Returns the birth of the QP with this number; 0: there is none. */
static u64 pib_hca_birth_of(struct pib_hca_dev *dev, u32 qpn)
{
	struct pib_hca_qp *qp = pib_hca_get_qp(dev, qpn);
	u64 birth = 0;

	if (qp) {
		birth = qp->birth;
		pib_hca_ref_put(&qp->ref);
	}
	return birth;
}

static void pib_hca_odp_send_resume(struct pib_hca_dev *dev, const struct pib_hca_page_fault *fault,
				    bool refused)
{
	u32 responder = le32_to_cpu(fault->flags) & PIB_HCA_PAGE_FAULT_RESPONDER;
	struct pib_hca_resume_page_fault resume = {
		.flags = cpu_to_le32(responder | (refused ? PIB_HCA_PAGE_FAULT_REFUSED : 0)),
	};

	/* An error means that the QP has gone or has left the state in which it waits. */
	pib_hca_cmd_set(dev, PIB_HCA_CMD_RESUME_PAGE_FAULT, le32_to_cpu(fault->qpn), &resume,
			sizeof(resume));
}

/*
 * Resumes the half of the QP that waits for the page. Mapping the page may have taken long, and the
 * number may belong to another QP by now, which must not be resumed.
 */
static void pib_hca_odp_resume(struct pib_hca_dev *dev, const struct pib_hca_page_fault *fault,
			       u64 birth, bool refused)
{
	struct pib_hca_qp *qp = pib_hca_get_qp(dev, le32_to_cpu(fault->qpn));

	if (!qp)
		return;
	mutex_lock(&qp->mutex); /* the QP keeps its number */
	if (qp->birth == birth && xa_load(&dev->qps, qp->qpn) == qp)
		pib_hca_odp_send_resume(dev, fault, refused);
	mutex_unlock(&qp->mutex);
	pib_hca_ref_put(&qp->ref);
}

static void pib_hca_odp_serve(struct pib_hca_dev *dev, const struct pib_hca_page_fault *fault,
			      u64 birth)
{
	u64 length = min_t(u64, le64_to_cpu(fault->length), PIB_HCA_ODP_FAULT_STEP);
	bool write = le32_to_cpu(fault->flags) & PIB_HCA_PAGE_FAULT_WRITE;
	int ret;

	ret = pib_hca_odp_demand(dev, le32_to_cpu(fault->key), NULL, le64_to_cpu(fault->addr),
				 length, write, true);
	if (pib_hca_may_work_later(ret))
		msleep(PIB_HCA_ODP_RETRY_MS);
	pib_hca_odp_resume(dev, fault, birth, ret && !pib_hca_may_work_later(ret));
}

static void pib_hca_odp_serve_work(struct work_struct *work)
{
	struct pib_hca_fault_work *item = container_of(work, struct pib_hca_fault_work, work);

	pib_hca_odp_serve(item->dev, &item->fault, item->birth);
	kfree(item);
}

/* Serves the fault in a work item, or at once if there is no memory for one. */
static void pib_hca_odp_hand_out(struct pib_hca_dev *dev, const struct pib_hca_page_fault *fault)
{
	struct pib_hca_fault_work *item = kmalloc(sizeof(*item), GFP_KERNEL);
	u64 birth = pib_hca_birth_of(dev, le32_to_cpu(fault->qpn));

	if (!item) {
		pib_hca_odp_serve(dev, fault, birth);
		return;
	}
	INIT_WORK(&item->work, pib_hca_odp_serve_work);
	item->dev = dev;
	item->fault = *fault;
	item->birth = birth;
	queue_work(dev->odp.queue, &item->work);
}

static void pib_hca_odp_fetch(struct work_struct *work)
{
	struct pib_hca_dev *dev = container_of(to_delayed_work(work), struct pib_hca_dev,
					       odp.fetch);
	struct pib_hca_page_fault fault;
	int ret;

	do {
		ret = pib_hca_cmd_query(dev, PIB_HCA_CMD_QUERY_PAGE_FAULT, 0, &fault,
					sizeof(fault));
		if (!ret && fault.length)
			pib_hca_odp_hand_out(dev, &fault);
		cond_resched();
	} while (!ret && fault.length);
	/* The device sends no further event until the last fault has been fetched. */
	if (ret && !pib_hca_is_dead(dev))
		queue_delayed_work(dev->odp.queue, &dev->odp.fetch,
				   msecs_to_jiffies(PIB_HCA_ODP_RETRY_MS));
}

void pib_hca_odp_event(struct pib_hca_dev *dev)
{
	mod_delayed_work(dev->odp.queue, &dev->odp.fetch, 0);
}

int pib_hca_odp_init(struct pib_hca_dev *dev)
{
	xa_init(&dev->odp.mrs);
	INIT_DELAYED_WORK(&dev->odp.fetch, pib_hca_odp_fetch);
	dev->odp.queue = alloc_workqueue("pib_hca_odp", WQ_UNBOUND, 0);
	return dev->odp.queue ? 0 : -ENOMEM;
}

void pib_hca_odp_cleanup(struct pib_hca_dev *dev)
{
	/* No more events come; a failed fetch may still be queued. */
	cancel_delayed_work_sync(&dev->odp.fetch);
	destroy_workqueue(dev->odp.queue);
	WARN_ON(!xa_empty(&dev->odp.mrs));
}

#endif /* PIB_HCA_HAS_ODP */
