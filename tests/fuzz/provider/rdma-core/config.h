/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The provider asks rdma-core's configuration for nothing. */
#pragma once
