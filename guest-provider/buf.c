// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory of rings: the provider's own, or from a parent domain's allocator. */
#include <config.h>

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "pib.h"

static int pib_map(struct pib_buf *buf)
{
	buf->addr = mmap(NULL, buf->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	if (buf->addr != MAP_FAILED)
		return 0;
	buf->addr = NULL;
	return ENOMEM;
}

/*
 * Takes memory from the domain's allocator, or maps it if the allocator returns
 * IBV_ALLOCATOR_USE_DEFAULT (ibv_alloc_parent_domain(3)).
 */
static int pib_ask_allocator(struct pib_pd *domain, struct pib_buf *buf, size_t page_size)
{
	void *addr = domain->alloc(&domain->ibv_pd, domain->pd_context, buf->length, page_size,
				   buf->resource_type);

	if (addr == IBV_ALLOCATOR_USE_DEFAULT)
		return pib_map(buf);
	if (!addr)
		return ENOMEM;
	buf->addr = addr;
	buf->is_foreign = true;
	if ((uintptr_t)addr % page_size) {
		pib_free_buf(buf);
		return EINVAL;
	}
	memset(addr, 0, buf->length);
	return 0;
}

int pib_alloc_buf(struct pib_context *ctx, struct ibv_pd *pd, uint64_t resource_type,
		  struct pib_buf *buf, size_t length)
{
	size_t page_size = to_pdev(ctx->ibv_ctx.context.device)->page_size;
	struct pib_pd *domain = pib_parent_domain(pd);
	int ret;

	*buf = (struct pib_buf){
		.length = align(length, page_size),
		.domain = domain,
		.resource_type = resource_type,
	};
	if (domain)
		atomic_fetch_add(&domain->users, 1);
	ret = domain && domain->alloc ? pib_ask_allocator(domain, buf, page_size) : pib_map(buf);
	/*
	 * Copy-on-write after a fork could give this process a new page and leave the old one,
	 * which the device uses, to the child.
	 */
	if (!ret && ibv_dontfork_range(buf->addr, buf->length))
		ret = errno ? errno : ENOMEM;
	if (!ret) {
		buf->is_kept = true;
		return 0;
	}
	pib_free_buf(buf);
	return ret;
}

void pib_free_buf(struct pib_buf *buf)
{
	struct pib_pd *domain = buf->domain;

	if (buf->is_kept)
		ibv_dofork_range(buf->addr, buf->length);
	if (buf->is_foreign)
		domain->free(&domain->ibv_pd, domain->pd_context, buf->addr, buf->resource_type);
	else if (buf->addr)
		munmap(buf->addr, buf->length);
	if (domain)
		atomic_fetch_sub(&domain->users, 1);
	*buf = (struct pib_buf){};
}
