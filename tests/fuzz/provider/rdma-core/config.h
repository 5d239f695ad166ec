/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The provider needs no macros of rdma-core's configuration. */
#pragma once
