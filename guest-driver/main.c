// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The module: device discovery, start and stop of a device, and the table of verbs. */
#include <linux/module.h>
#include <linux/pm.h>

#include "pib_hca.h"

MODULE_AUTHOR("The pib-hca authors");
MODULE_DESCRIPTION("Driver of the pib-hca InfiniBand HCA");
MODULE_LICENSE("Dual BSD/GPL");

/* ibstat(8) prints the type. */
static ssize_t hca_type_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "pib-hca\n");
}
static DEVICE_ATTR_RO(hca_type);

static ssize_t hw_rev_show(struct device *device, struct device_attribute *attr, char *buf)
{
	struct pib_hca_dev *dev = rdma_device_to_drv_device(device, struct pib_hca_dev, ibdev);

	return sysfs_emit(buf, "%x\n", le32_to_cpu(dev->caps.hw_version));
}
static DEVICE_ATTR_RO(hw_rev);

static struct attribute *pib_hca_attributes[] = {
	&dev_attr_hca_type.attr,
	&dev_attr_hw_rev.attr,
	NULL
};

static const struct attribute_group pib_hca_attribute_group = {
	.attrs = pib_hca_attributes,
};

static const struct ib_device_ops pib_hca_ops = {
	.owner = THIS_MODULE,
	/* No driver_id: only the upstream kernel can assign one. The provider uses the PCI id. */
	.uverbs_abi_ver = PIB_HCA_UVERBS_ABI_VERSION,

	.advise_mr = pib_hca_advise_mr,
	.alloc_dm = pib_hca_alloc_dm,
	.alloc_hw_device_stats = pib_hca_alloc_device_stats,
	.alloc_hw_port_stats = pib_hca_alloc_port_stats,
	.alloc_mr = pib_hca_alloc_fast_mr,
	.alloc_mw = pib_hca_alloc_mw,
	.alloc_pd = pib_hca_alloc_pd,
	.alloc_ucontext = pib_hca_alloc_ucontext,
	.alloc_xrcd = pib_hca_alloc_xrcd,
	.attach_mcast = pib_hca_attach_mcast,
	.create_ah = pib_hca_create_ah,
	.create_qp = pib_hca_create_qp,
	.create_srq = pib_hca_create_srq,
	.create_user_ah = pib_hca_create_ah,
	.dealloc_dm = pib_hca_dealloc_dm,
	.dealloc_mw = pib_hca_dealloc_mw,
	.dealloc_pd = pib_hca_dealloc_pd,
	.dealloc_ucontext = pib_hca_dealloc_ucontext,
	.dealloc_xrcd = pib_hca_dealloc_xrcd,
	.dereg_mr = pib_hca_dereg_mr,
	.destroy_ah = pib_hca_destroy_ah,
	.destroy_cq = pib_hca_destroy_cq,
	.destroy_qp = pib_hca_destroy_qp,
	.destroy_srq = pib_hca_destroy_srq,
	.detach_mcast = pib_hca_detach_mcast,
	.device_group = &pib_hca_attribute_group,
	.disassociate_ucontext = pib_hca_disassociate_ucontext,
	.fill_res_cq_entry = pib_hca_fill_res_cq_entry,
	.fill_res_mr_entry = pib_hca_fill_res_mr_entry,
	.fill_res_qp_entry = pib_hca_fill_res_qp_entry,
	.get_dev_fw_str = pib_hca_get_dev_fw_str,
	.get_dma_mr = pib_hca_get_dma_mr,
	.get_hw_stats = pib_hca_get_stats,
	.get_link_layer = pib_hca_get_link_layer,
	.get_port_immutable = pib_hca_get_port_immutable,
	.map_mr_sg = pib_hca_map_mr_sg,
	.mmap = pib_hca_mmap,
	.mmap_free = pib_hca_mmap_free,
	.modify_cq = pib_hca_modify_cq,
	.modify_device = pib_hca_modify_device,
	.modify_port = pib_hca_modify_port,
	.modify_qp = pib_hca_modify_qp,
	.modify_srq = pib_hca_modify_srq,
	.poll_cq = pib_hca_poll_cq,
	.post_recv = pib_hca_post_recv,
	.post_send = pib_hca_post_send,
	.post_srq_recv = pib_hca_post_srq_recv,
	.process_mad = pib_hca_process_mad,
	.query_ah = pib_hca_query_ah,
	.query_device = pib_hca_query_device,
	.query_gid = pib_hca_query_gid,
	.query_pkey = pib_hca_query_pkey,
	.query_port = pib_hca_query_port,
	.query_qp = pib_hca_query_qp,
	.query_srq = pib_hca_query_srq,
	.query_ucontext = pib_hca_query_ucontext,
	.reg_dm_mr = pib_hca_reg_dm_mr,
	.req_notify_cq = pib_hca_req_notify_cq,
	.rereg_user_mr = pib_hca_rereg_mr,

	INIT_RDMA_OBJ_SIZE(ib_ah, pib_hca_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_cq, pib_hca_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_mw, pib_hca_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_pd, pib_hca_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, pib_hca_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_srq, pib_hca_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, pib_hca_ucontext, ibucontext),
	INIT_RDMA_OBJ_SIZE(ib_xrcd, pib_hca_xrcd, ibxrcd),
};

/* ---------------------------------------------------------------- start and stop ------------- */

static int pib_hca_query_caps(struct pib_hca_dev *dev)
{
	struct pib_hca_query_device *caps = &dev->caps;
	int ret;

	ret = pib_hca_cmd_query(dev, PIB_HCA_CMD_QUERY_DEVICE, 0, caps, sizeof(*caps));
	if (ret)
		return ret;
	if (caps->port_count >= 1 && caps->port_count <= PIB_HCA_MAX_PORTS)
		return 0;
	dev_err(&dev->pdev->dev, "device has %u ports, driver needs 1 to %d: update the older one\n",
		caps->port_count, PIB_HCA_MAX_PORTS);
	return -ENODEV;
}

static int pib_hca_register(struct pib_hca_dev *dev)
{
	struct ib_device *ibdev = &dev->ibdev;
	int ret;

	ibdev->node_type = RDMA_NODE_IB_CA;
	ibdev->phys_port_cnt = dev->caps.port_count;
	ibdev->num_comp_vectors = dev->eq_count - 1;
	ibdev->local_dma_lkey = le32_to_cpu(dev->caps.privileged_lkey);
	ibdev->dev.parent = &dev->pdev->dev;
	memcpy(&ibdev->node_guid, dev->caps.node_guid, sizeof(ibdev->node_guid));
	memcpy(ibdev->node_desc, dev->caps.node_description, sizeof(dev->caps.node_description));
	ib_set_device_ops(ibdev, &pib_hca_ops);
	ib_set_device_ops(ibdev, &pib_hca_compat_ops);
	if (IS_ENABLED(CONFIG_INFINIBAND_USER_ACCESS))
		ibdev->driver_def = pib_hca_import_defs;

	set_bit(PIB_HCA_DEV_REGISTERED, &dev->flags);
	ret = ib_register_device(ibdev, "pib_%d", &dev->pdev->dev);
	if (ret) {
		clear_bit(PIB_HCA_DEV_REGISTERED, &dev->flags);
		return ret;
	}
	/* The core gets no event before this: the call above may register, fail and clean up. */
	pib_hca_events_start(dev);
	pib_hca_debugfs_add(dev);
	pib_hca_health_start(dev);
	return 0;
}

static void pib_hca_unregister(struct pib_hca_dev *dev)
{
	/* Declare an unplugged device dead now, while consumers can be notified. */
	pib_hca_has_failed(dev);
	/* The core must get no event after it has forgotten the device. */
	pib_hca_events_stop(dev);
	pib_hca_debugfs_remove(dev);
	/*
	 * Consumers that leave wait for their completions. If the device dies meanwhile, the driver
	 * flushes their work requests.
	 */
	ib_unregister_device(&dev->ibdev);
	pib_hca_health_stop(dev);
	clear_bit(PIB_HCA_DEV_REGISTERED, &dev->flags);
}

/* Frees a device that uses no memory any more and raises no interrupt. */
static void pib_hca_dealloc(struct pib_hca_dev *dev)
{
	/* An interrupt or a page fault that gave the device up may have scheduled this work. */
	cancel_work_sync(&dev->flush_work);
	xa_destroy(&dev->keys);
	WARN_ON(!xa_empty(&dev->qps));
	WARN_ON(!xa_empty(&dev->cqs));
	WARN_ON(!xa_empty(&dev->srqs));
	ib_dealloc_device(&dev->ibdev);
}

static int pib_hca_start(struct pci_dev *pdev)
{
	struct pib_hca_binding *binding = pci_get_drvdata(pdev);
	struct pib_hca_dev *dev;
	int ret;

	if (binding->shut_down)
		return -ESHUTDOWN;
	dev = ib_alloc_device(pib_hca_dev, ibdev);
	if (!dev)
		return -ENOMEM;
	dev->pdev = pdev;
	xa_init_flags(&dev->qps, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->cqs, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->srqs, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->keys, XA_FLAGS_LOCK_IRQ);
	INIT_WORK(&dev->flush_work, pib_hca_flush_work);
	mutex_init(&dev->modify_mutex);

	ret = pib_hca_hw_init(dev);
	if (ret)
		goto err_dealloc;
	ret = pib_hca_cmdq_init(dev);
	if (ret)
		goto err_hw;
	ret = pib_hca_query_caps(dev);
	if (ret)
		goto err_cmdq;
	ret = pib_hca_odp_init(dev);
	if (ret)
		goto err_cmdq;
	ret = pib_hca_eqs_init(dev);
	if (ret)
		goto err_odp;
	ret = pib_hca_dm_init(dev);
	if (ret)
		goto err_eqs;
	ret = pib_hca_shadow_init(dev, &dev->shadow, 0);
	if (ret)
		goto err_dm;
	binding->started = jiffies;
	WRITE_ONCE(binding->dev, dev);
	ret = pib_hca_register(dev);
	if (ret)
		goto err_shadow;
	return 0;

err_shadow:
	WRITE_ONCE(binding->dev, NULL);
	pib_hca_shadow_cleanup(dev, &dev->shadow);
err_dm:
	pib_hca_dm_cleanup(dev);
err_eqs:
	pib_hca_eqs_cleanup(dev);
err_odp:
	pib_hca_odp_cleanup(dev);
err_cmdq:
	pib_hca_cmdq_cleanup(dev);
err_hw:
	pib_hca_hw_cleanup(dev);
err_dealloc:
	pib_hca_dealloc(dev);
	return ret;
}

void pib_hca_stop(struct pci_dev *pdev)
{
	struct pib_hca_binding *binding = pci_get_drvdata(pdev);
	struct pib_hca_dev *dev = binding->dev;

	if (!dev)
		return;
	WRITE_ONCE(binding->dev, NULL);
	pib_hca_unregister(dev);
	pib_hca_shadow_cleanup(dev, &dev->shadow);
	pib_hca_dm_cleanup(dev);
	pib_hca_eqs_cleanup(dev);
	pib_hca_odp_cleanup(dev);
	pib_hca_cmdq_cleanup(dev);
	pib_hca_hw_cleanup(dev);
	pib_hca_dealloc(dev);
}

/* ---------------------------------------------------------------- PCI ------------------------ */

static int pib_hca_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct pib_hca_binding *binding;
	int ret;

	binding = devm_kzalloc(&pdev->dev, sizeof(*binding), GFP_KERNEL);
	if (!binding)
		return -ENOMEM;
	binding->pdev = pdev;
	pib_hca_recovery_init(binding);
	pci_set_drvdata(pdev, binding);
	ret = pib_hca_start(pdev);
	if (ret)
		pib_hca_recovery_stop(binding);
	return ret;
}

static void pib_hca_remove(struct pci_dev *pdev)
{
	pib_hca_stop(pdev);
	pib_hca_recovery_stop(pci_get_drvdata(pdev));
}

/* The device must not write to memory that the next kernel or the firmware uses. */
static void pib_hca_shutdown(struct pci_dev *pdev)
{
	struct pib_hca_binding *binding = pci_get_drvdata(pdev);
	struct pib_hca_dev *dev = binding->dev;

	/* From now on, recovery and resets, which need the caller's lock, start nothing. */
	WRITE_ONCE(binding->shut_down, true);
	if (dev) {
		clear_bit(PIB_HCA_DEV_EVENTS, &dev->flags);
		pib_hca_cut_off(dev);
		pib_hca_wait_quiet(dev); /* another processor may have begun the reset */
	}
	pib_hca_recovery_stop(binding);
	pci_clear_master(pdev);
}

int pib_hca_restart(struct pci_dev *pdev)
{
	int ret = pib_hca_start(pdev);

	if (ret)
		dev_err(&pdev->dev, "not started again: error %d; bind the driver to retry\n",
			ret);
	return ret;
}

/*
 * A function level reset or a suspend erases the device's state, so the driver unregisters the
 * device before and registers it again afterwards.
 */
static void pib_hca_reset_prepare(struct pci_dev *pdev)
{
	pib_hca_stop(pdev);
}

static void pib_hca_reset_done(struct pci_dev *pdev)
{
	pib_hca_restart(pdev);
}

static int pib_hca_suspend(struct device *device)
{
	pib_hca_stop(to_pci_dev(device));
	return 0;
}

static int pib_hca_resume(struct device *device)
{
	return pib_hca_restart(to_pci_dev(device));
}

static DEFINE_SIMPLE_DEV_PM_OPS(pib_hca_pm_ops, pib_hca_suspend, pib_hca_resume);

/* A non-fatal PCI error affects one transaction; the device reports its failure. */
static pci_ers_result_t pib_hca_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	struct pib_hca_binding *binding = pci_get_drvdata(pdev);
	struct pib_hca_dev *dev = binding->dev;

	if (state == pci_channel_io_normal)
		return PCI_ERS_RESULT_CAN_RECOVER;
	if (dev)
		pib_hca_die(dev, "PCI reports an error");
	if (state == pci_channel_io_perm_failure)
		return PCI_ERS_RESULT_DISCONNECT;
	pib_hca_stop(pdev);
	return PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t pib_hca_mmio_enabled(struct pci_dev *pdev)
{
	struct pib_hca_binding *binding = pci_get_drvdata(pdev);
	struct pib_hca_dev *dev = binding->dev;

	return dev && pib_hca_has_failed(dev) ? PCI_ERS_RESULT_NEED_RESET :
						PCI_ERS_RESULT_RECOVERED;
}

static pci_ers_result_t pib_hca_slot_reset(struct pci_dev *pdev)
{
	pci_restore_state(pdev);
	pib_hca_stop(pdev); /* no effect if pib_hca_error_detected() has stopped it */
	return pib_hca_restart(pdev) ? PCI_ERS_RESULT_DISCONNECT : PCI_ERS_RESULT_RECOVERED;
}

static const struct pci_error_handlers pib_hca_err_handlers = {
	.error_detected = pib_hca_error_detected,
	.mmio_enabled = pib_hca_mmio_enabled,
	.slot_reset = pib_hca_slot_reset,
	.reset_prepare = pib_hca_reset_prepare,
	.reset_done = pib_hca_reset_done,
};

static const struct pci_device_id pib_hca_pci_table[] = {
	{ PCI_DEVICE(PIB_HCA_PCI_VENDOR_ID, PIB_HCA_PCI_DEVICE_ID) },
	{}
};
MODULE_DEVICE_TABLE(pci, pib_hca_pci_table);

static struct pci_driver pib_hca_driver = {
	.name = PIB_HCA_NAME,
	.id_table = pib_hca_pci_table,
	.probe = pib_hca_probe,
	.remove = pib_hca_remove,
	.shutdown = pib_hca_shutdown,
	.err_handler = &pib_hca_err_handlers,
	.driver.pm = pm_sleep_ptr(&pib_hca_pm_ops),
};

static int __init pib_hca_module_init(void)
{
	int ret;

	pib_hca_debugfs_init();
	ret = pci_register_driver(&pib_hca_driver);
	if (ret)
		pib_hca_debugfs_exit();
	return ret;
}
module_init(pib_hca_module_init);

static void __exit pib_hca_module_exit(void)
{
	pci_unregister_driver(&pib_hca_driver);
	pib_hca_debugfs_exit();
}
module_exit(pib_hca_module_exit);
