/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The part of rdma-core's header for providers that the provider's queues use. The kernel behind
 * the commands is that of lying_device.c.
 */
#pragma once

#include <endian.h>
#include <infiniband/kern-abi.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#ifndef container_of
#define container_of(pointer, type, member) ((type*)((char*)(pointer) - offsetof(type, member)))
#endif

enum { VERBS_QP_EX = 1 };

struct verbs_device {
    struct ibv_device device;
};

struct verbs_cq {
    union {
        struct ibv_cq cq;
        struct ibv_cq_ex cq_ex;
    };
};

struct verbs_srq {
    struct ibv_srq srq;
};

struct verbs_qp {
    union {
        struct ibv_qp qp;
        struct ibv_qp_ex qp_ex;
    };
    uint32_t comp_mask;
};

struct verbs_mr;

/* Commands to which the driver adds no part. */
struct ibv_modify_cq {
    char nothing;
};
struct ibv_modify_qp {
    char nothing;
};
struct ibv_query_qp {
    char nothing;
};
struct ibv_open_qp {
    char nothing;
};
struct ibv_modify_srq {
    char nothing;
};
struct ibv_query_srq {
    char nothing;
};

/* Commands return 0 or an errno value. `response`: the driver's part follows the kernel's part. */
int ibv_cmd_create_cq(struct ibv_context* context, int cqe, struct ibv_comp_channel* channel,
                      int comp_vector, struct ibv_cq* cq, void* command, size_t command_size,
                      void* response, size_t response_size);
int ibv_cmd_create_cq_ex(struct ibv_context* context, const struct ibv_cq_init_attr_ex* attr,
                         struct verbs_cq* cq, void* command, size_t command_size, void* response,
                         size_t response_size, uint32_t flags);
int ibv_cmd_resize_cq(struct ibv_cq* cq, int cqe, void* command, size_t command_size,
                      void* response, size_t response_size);
int ibv_cmd_modify_cq(struct ibv_cq* cq, struct ibv_modify_cq_attr* attr, void* command,
                      size_t command_size);
int ibv_cmd_destroy_cq(struct ibv_cq* cq);
int ibv_cmd_create_qp_ex(struct ibv_context* context, struct verbs_qp* qp,
                         struct ibv_qp_init_attr_ex* attr, void* command, size_t command_size,
                         void* response, size_t response_size);
int ibv_cmd_open_qp(struct ibv_context* context, struct verbs_qp* qp, int qp_size,
                    struct ibv_qp_open_attr* attr, void* command, size_t command_size,
                    void* response, size_t response_size);
int ibv_cmd_modify_qp(struct ibv_qp* qp, struct ibv_qp_attr* attr, int attr_mask, void* command,
                      size_t command_size);
int ibv_cmd_query_qp(struct ibv_qp* qp, struct ibv_qp_attr* attr, int attr_mask,
                     struct ibv_qp_init_attr* init_attr, void* command, size_t command_size);
int ibv_cmd_destroy_qp(struct ibv_qp* qp);
int ibv_cmd_create_srq(struct ibv_pd* pd, struct ibv_srq* srq, struct ibv_srq_init_attr* attr,
                       void* command, size_t command_size, void* response, size_t response_size);
int ibv_cmd_create_srq_ex(struct ibv_context* context, struct verbs_srq* srq,
                          struct ibv_srq_init_attr_ex* attr, void* command, size_t command_size,
                          void* response, size_t response_size);
int ibv_cmd_modify_srq(struct ibv_srq* srq, struct ibv_srq_attr* attr, int attr_mask, void* command,
                       size_t command_size);
int ibv_cmd_query_srq(struct ibv_srq* srq, struct ibv_srq_attr* attr, void* command,
                      size_t command_size);
int ibv_cmd_destroy_srq(struct ibv_srq* srq);
int ibv_cmd_get_context(void* context, void* command, size_t command_size, void* response,
                        size_t response_size);

int ibv_dontfork_range(void* base, size_t size);
int ibv_dofork_range(void* base, size_t size);
