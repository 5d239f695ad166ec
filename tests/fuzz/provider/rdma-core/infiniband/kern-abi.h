/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Commands and responses of the kernel with the driver's part. The kernel's own part is a
 * placeholder, because the provider does not read it. */
#pragma once

#include <rdma/ib_user_verbs.h>

struct empty {
    char nothing;
};

struct ibv_any_command {
    char place[8];
};
struct ibv_get_context {
    char place[8];
};
struct ibv_create_cq_ex {
    char place[8];
};

#define REQUEST_IB_USER_VERBS_CMD_GET_CONTEXT struct ibv_get_context
#define REQUEST_IB_USER_VERBS_CMD_ALLOC_PD struct ibv_any_command
#define REQUEST_IB_USER_VERBS_CMD_CREATE_CQ struct ibv_any_command
#define REQUEST_IB_USER_VERBS_EX_CMD_CREATE_CQ struct ibv_create_cq_ex
#define REQUEST_IB_USER_VERBS_CMD_RESIZE_CQ struct ibv_any_command
#define REQUEST_IB_USER_VERBS_CMD_CREATE_QP struct ibv_any_command
#define REQUEST_IB_USER_VERBS_CMD_CREATE_SRQ struct ibv_any_command
#define REQUEST_IB_USER_VERBS_CMD_CREATE_XSRQ struct ibv_any_command
#define REQUEST_IB_USER_VERBS_CMD_MODIFY_SRQ struct ibv_any_command

#define RESPONSE_IB_USER_VERBS_CMD_GET_CONTEXT struct ibv_any_command
#define RESPONSE_IB_USER_VERBS_CMD_ALLOC_PD struct ibv_any_command
#define RESPONSE_IB_USER_VERBS_CMD_CREATE_CQ struct ibv_any_command
#define RESPONSE_IB_USER_VERBS_EX_CMD_CREATE_CQ struct ib_uverbs_ex_create_cq_resp
#define RESPONSE_IB_USER_VERBS_CMD_RESIZE_CQ struct ibv_any_command
#define RESPONSE_IB_USER_VERBS_CMD_CREATE_QP struct ibv_any_command
#define RESPONSE_IB_USER_VERBS_CMD_CREATE_SRQ struct ibv_any_command
#define RESPONSE_IB_USER_VERBS_CMD_CREATE_XSRQ struct ibv_any_command
#define RESPONSE_IB_USER_VERBS_CMD_MODIFY_SRQ struct ibv_any_command

#define DECLARE_DRV_CMD(name, number, request, response) \
    struct name {                                        \
        REQUEST_##number ibv_cmd;                        \
        struct request drv_payload;                      \
    };                                                   \
    struct name##_resp {                                 \
        RESPONSE_##number ibv_resp;                      \
        struct response drv_payload;                     \
    }
