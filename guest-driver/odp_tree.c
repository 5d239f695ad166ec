// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* On-demand paging: the tree of tables that the device walks; see pib_hca_odp.h. */
#include "pib_hca_odp.h"

#ifdef PIB_HCA_HAS_ODP

static struct pib_hca_odp_node *pib_hca_odp_node_alloc(struct pib_hca_dev *dev, bool lowest)
{
	struct pib_hca_odp_node *node = kzalloc(sizeof(*node), GFP_KERNEL_ACCOUNT);

	if (!node)
		return NULL;
	node->entries = dma_alloc_coherent(&dev->pdev->dev, PAGE_SIZE, &node->dma,
					   GFP_KERNEL_ACCOUNT);
	if (!node->entries)
		goto err_node;
	if (lowest) {
		atomic_inc(&dev->odp.tables);
		return node;
	}
	node->children = kcalloc(PIB_HCA_TABLE_ENTRIES, sizeof(*node->children),
				 GFP_KERNEL_ACCOUNT);
	if (node->children)
		return node;
	dma_free_coherent(&dev->pdev->dev, PAGE_SIZE, node->entries, node->dma);
err_node:
	kfree(node);
	return NULL;
}

/* Recurses at most PIB_HCA_MAX_ON_DEMAND_LEVELS deep. */
static void pib_hca_odp_node_free(struct pib_hca_dev *dev, struct pib_hca_odp_node *node)
{
	u32 i;

	if (!node)
		return;
	for (i = 0; node->children && i < PIB_HCA_TABLE_ENTRIES; i++)
		pib_hca_odp_node_free(dev, node->children[i]);
	if (!node->children)
		atomic_dec(&dev->odp.tables);
	kfree(node->children);
	dma_free_coherent(&dev->pdev->dev, PAGE_SIZE, node->entries, node->dma);
	kfree(node);
}

u64 pib_hca_odp_reach(void)
{
	return 1ULL << (PAGE_SHIFT + PIB_HCA_MAX_ON_DEMAND_LEVELS * PIB_HCA_LOG_ENTRIES);
}

int pib_hca_odp_tree_init(struct pib_hca_odp *odp, u64 pages)
{
	odp->levels = 1;
	while (pages > 1ULL << (odp->levels * PIB_HCA_LOG_ENTRIES))
		odp->levels++;
	odp->root = pib_hca_odp_node_alloc(odp->dev, odp->levels == 1);
	return odp->root ? 0 : -ENOMEM;
}

void pib_hca_odp_tree_free(struct pib_hca_odp *odp)
{
	pib_hca_odp_node_free(odp->dev, odp->root);
}

/* Adds a table below the entry `index` of `node`. */
static struct pib_hca_odp_node *pib_hca_odp_add_child(struct pib_hca_odp *odp,
						      struct pib_hca_odp_node *node, u32 index,
						      bool lowest)
{
	struct pib_hca_odp_node *child = pib_hca_odp_node_alloc(odp->dev, lowest);

	if (!child)
		return NULL;
	dma_wmb(); /* the device may walk into the table as soon as it sees the entry */
	WRITE_ONCE(node->entries[index], cpu_to_le64(child->dma | PIB_HCA_ON_DEMAND_READ));
	/* Pairs with the acquire in pib_hca_odp_child(), which takes no lock. */
	smp_store_release(&node->children[index], child);
	return child;
}

static u32 pib_hca_odp_index(const struct pib_hca_odp *odp, u64 va, u32 level)
{
	u64 page = (va - odp->first) >> PAGE_SHIFT;

	return page >> (level * PIB_HCA_LOG_ENTRIES) & (PIB_HCA_TABLE_ENTRIES - 1);
}

static struct pib_hca_odp_node *pib_hca_odp_child(struct pib_hca_odp_node *node, u32 index)
{
	return smp_load_acquire(&node->children[index]); /* see pib_hca_odp_add_child() */
}

/*
 * Returns the node above the lowest table of `va`, in a tree of two or more levels; adds missing
 * nodes with `grow`, else returns NULL. Nodes above the lowest level stay as long as the tree.
 */
static struct pib_hca_odp_node *pib_hca_odp_parent(struct pib_hca_odp *odp, u64 va, bool grow)
{
	struct pib_hca_odp_node *node = odp->root;
	u32 level;

	for (level = odp->levels - 1; node && level > 1; level--) {
		u32 index = pib_hca_odp_index(odp, va, level);
		struct pib_hca_odp_node *child = pib_hca_odp_child(node, index);

		if (!child && grow)
			child = pib_hca_odp_add_child(odp, node, index, false);
		node = child;
	}
	return node;
}

/* Returns the entry of the page at `va`, or NULL. umem_mutex is held, so the table stays. */
static __le64 *pib_hca_odp_entry(struct pib_hca_odp *odp, u64 va)
{
	struct pib_hca_odp_node *table = odp->root;

	if (odp->levels > 1) {
		table = pib_hca_odp_parent(odp, va, false);
		if (table)
			table = pib_hca_odp_child(table, pib_hca_odp_index(odp, va, 1));
	}
	return table ? &table->entries[pib_hca_odp_index(odp, va, 0)] : NULL;
}

/*
 * Moves the lowest table of `va`, whose pages are all being unmapped, from the tree to `gone`.
 * pib_hca_odp_show() maps nothing without a table, and the device then asks for the page again.
 */
static void pib_hca_odp_unlink(struct pib_hca_odp *odp, u64 va, struct pib_hca_odp_node **gone)
{
	u32 index = pib_hca_odp_index(odp, va, 1);
	struct pib_hca_odp_node *parent, *table;

	parent = pib_hca_odp_parent(odp, va, false);
	table = parent ? pib_hca_odp_child(parent, index) : NULL;
	if (!table)
		return;
	WRITE_ONCE(parent->entries[index], 0);
	/* Clear the entry before pib_hca_odp_grow() can see the NULL and add a new table. */
	smp_store_release(&parent->children[index], NULL);
	table->next = *gone;
	*gone = table;
}

/* Returns the first address that the next table of the lowest level describes. */
static u64 pib_hca_odp_next_table(const struct pib_hca_odp *odp, u64 va)
{
	return ALIGN_DOWN(va - odp->first, PIB_HCA_ODP_TABLE_BYTES) + odp->first +
	       PIB_HCA_ODP_TABLE_BYTES;
}

static size_t pib_hca_odp_page(struct ib_umem_odp *umem, u64 va)
{
	return (va - ib_umem_start(umem)) >> PAGE_SHIFT;
}

int pib_hca_odp_grow(struct pib_hca_odp *odp, u64 start, u64 end)
{
	u64 va;

	for (va = start; odp->levels > 1 && va < end; va = pib_hca_odp_next_table(odp, va)) {
		struct pib_hca_odp_node *parent = pib_hca_odp_parent(odp, va, true);
		u32 index = pib_hca_odp_index(odp, va, 1);

		if (!parent)
			return -ENOMEM;
		if (!pib_hca_odp_child(parent, index) &&
		    !pib_hca_odp_add_child(odp, parent, index, true))
			return -ENOMEM;
	}
	return 0;
}

void pib_hca_odp_settle(struct pib_hca_odp *odp, struct ib_umem_odp *umem, u64 start, u64 end)
{
	u64 va, stop;

	for (va = start; PIB_HCA_ODP_NEEDS_SETTLING && va < end;) {
		__le64 *entry = pib_hca_odp_entry(odp, va);

		stop = min(end, pib_hca_odp_next_table(odp, va));
		for (; va < stop; va += PAGE_SIZE) {
			pib_hca_compat_odp_settle(umem, pib_hca_odp_page(umem, va),
						  entry && *entry);
			if (entry)
				entry++;
		}
	}
}

int pib_hca_odp_show(struct pib_hca_odp *odp, struct ib_umem_odp *umem, u64 start, u64 end)
{
	u64 va, value;
	int ret;

	dma_wmb(); /* the device may use a page as soon as it sees the entry */
	for (va = start; va < end; va += PAGE_SIZE) {
		__le64 *entry = pib_hca_odp_entry(odp, va);

		if (!entry) /* an invalidation has taken the table */
			continue;
		value = le64_to_cpu(*entry);
		ret = pib_hca_compat_odp_entry(umem, pib_hca_odp_page(umem, va), &value);
		if (ret)
			return ret;
		WRITE_ONCE(*entry, cpu_to_le64(value));
	}
	wmb(); /* store the entries before the doorbell that makes the device read them */
	return 0;
}

bool pib_hca_odp_is_empty(struct pib_hca_odp *odp, u64 va)
{
	__le64 *entry = pib_hca_odp_entry(odp, ALIGN_DOWN(va, PIB_HCA_ODP_TABLE_BYTES));

	return !entry || !memchr_inv(entry, 0, PAGE_SIZE);
}

/* Clears the entries of [va, end), which lie in one table. */
static void pib_hca_odp_clear(struct pib_hca_odp *odp, u64 va, u64 end)
{
	__le64 *entry = pib_hca_odp_entry(odp, va);

	for (; entry && va < end; va += PAGE_SIZE, entry++)
		WRITE_ONCE(*entry, 0);
}

void pib_hca_odp_hide(struct pib_hca_odp *odp, u64 start, u64 end)
{
	struct pib_hca_odp_node *gone = NULL, *next;
	u64 va, stop;

	for (va = start; va < end; va = stop) {
		stop = min(end, pib_hca_odp_next_table(odp, va));
		if (odp->levels > 1 && stop - va == PIB_HCA_ODP_TABLE_BYTES)
			pib_hca_odp_unlink(odp, va, &gone);
		else
			pib_hca_odp_clear(odp, va, stop);
	}
	wmb(); /* store the entries before the load of STATUS */
	/* When the load returns, no access uses the entries' old values. */
	pib_hca_read(odp->dev, PIB_HCA_REG_STATUS);
	for (; gone; gone = next) {
		next = gone->next;
		pib_hca_odp_node_free(odp->dev, gone);
	}
}

#endif /* PIB_HCA_HAS_ODP */
