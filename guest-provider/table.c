// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Objects by the device's 24-bit numbers: a two-level table keeps the sparse range small. A page
 * lives as long as the context, because pollers read it without the writers' mutex. A CQE may name
 * any object, so a lookup returns only objects of the polled CQ; other objects may be freed
 * meanwhile.
 */
#include <config.h>

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "pib.h"

static struct pib_table_entry *pib_table_entry(struct pib_table *table, uint32_t number)
{
	struct pib_table_entry *page =
		atomic_load_explicit(&table->pages[(number & PIB_HCA_DB_NUMBER_MASK) >>
						   PIB_TABLE_SHIFT],
				     memory_order_acquire);

	return page ? &page[number & PIB_TABLE_MASK] : NULL;
}

void *pib_table_find(struct pib_table *table, uint32_t number, const struct pib_cq *cq)
{
	struct pib_table_entry *entry = pib_table_entry(table, number);
	int i;

	for (i = 0; entry && i < 2; i++)
		/* Acquire: pairs with the release in pib_table_set(). */
		if (atomic_load_explicit(&entry->cqs[i], memory_order_acquire) == cq)
			return atomic_load_explicit(&entry->object, memory_order_relaxed);
	return NULL;
}

void *pib_table_owner(struct pib_table *table, uint32_t number)
{
	struct pib_table_entry *entry = pib_table_entry(table, number);

	return entry ? atomic_load_explicit(&entry->object, memory_order_relaxed) : NULL;
}

int pib_table_reserve(struct pib_table *table, uint32_t number)
{
	struct pib_table_entry *page;

	if (number & ~PIB_HCA_DB_NUMBER_MASK)
		return EPROTO;
	if (pib_table_entry(table, number))
		return 0;
	page = calloc(PIB_TABLE_SIZE, sizeof(*page));
	if (!page)
		return ENOMEM;
	atomic_store_explicit(&table->pages[number >> PIB_TABLE_SHIFT], page, memory_order_release);
	return 0;
}

void pib_table_set(struct pib_table *table, uint32_t number, void *object, struct pib_cq *a,
		   struct pib_cq *b)
{
	struct pib_table_entry *entry = pib_table_entry(table, number);

	/* A poller takes the object if it finds its own CQ, so store the CQs last. */
	atomic_store_explicit(&entry->object, object, memory_order_relaxed);
	atomic_store_explicit(&entry->cqs[0], a, memory_order_release);
	atomic_store_explicit(&entry->cqs[1], b, memory_order_release);
}

void pib_table_clear(struct pib_table *table, uint32_t number)
{
	pib_table_set(table, number, NULL, NULL, NULL);
}

void pib_table_yield(struct pib_context *ctx)
{
	pthread_mutex_unlock(&ctx->table_mutex);
	sched_yield();
	pthread_mutex_lock(&ctx->table_mutex);
}

void pib_table_free(struct pib_table *table)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(table->pages); i++)
		free(atomic_load_explicit(&table->pages[i], memory_order_relaxed));
}
