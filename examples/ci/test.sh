#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The test that pib ci runs, on the host. The guests see this folder as /share. vm0-ib names vm0's IPoIB address.
set -eu
"$PIB" exec vm0 -- make -C /share
"$PIB" exec vm0 -- timeout 300 /share/rdma_write vm0-ib server &
server=$!
"$PIB" exec vm1 -- timeout 300 /share/rdma_write vm0-ib client
wait "$server"
"$PIB" exec vm0 -- make -C /share clean
