// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Objects by the device's 24-bit numbers: a two-level table keeps the sparse range small. A page
 * lives as long as the context, because pollers read it without the writers' mutex.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include "pib.h"

void *pib_table_find(const struct pib_table *table, uint32_t number)
{
	void **page = atomic_load_explicit(
		(pib_table_page *)&table->pages[(number & PIB_HCA_DB_NUMBER_MASK) >>
						PIB_TABLE_SHIFT],
		memory_order_acquire);

	return page ? page[number & PIB_TABLE_MASK] : NULL;
}

int pib_table_reserve(struct pib_table *table, uint32_t number)
{
	pib_table_page *slot = &table->pages[number >> PIB_TABLE_SHIFT];
	void **page = atomic_load_explicit(slot, memory_order_relaxed);

	if (page)
		return 0;
	page = calloc(PIB_TABLE_SIZE, sizeof(*page));
	if (!page)
		return ENOMEM;
	atomic_store_explicit(slot, page, memory_order_release);
	return 0;
}

void pib_table_set(struct pib_table *table, uint32_t number, void *object)
{
	void **page = atomic_load_explicit(&table->pages[number >> PIB_TABLE_SHIFT],
					   memory_order_relaxed);

	page[number & PIB_TABLE_MASK] = object;
}

void pib_table_free(struct pib_table *table)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(table->pages); i++)
		free(atomic_load_explicit(&table->pages[i], memory_order_relaxed));
}
