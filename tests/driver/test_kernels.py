# SPDX-License-Identifier: GPL-2.0-or-later
"""The driver finds a kernel's features in its headers. ./pib test kernels compiles it for real ones; these headers are
stand-ins for kernels that Debian's suites may no longer have."""

import re
import subprocess

import pytest

from lab.base import paths

DRIVER = paths.ROOT / "guest-driver"
INCLUDE = re.compile(r"#include <(.*)>")
# Declarations of two kernels, by header. In the old one only another operation takes attributes.
OLD = {"rdma/ib_verbs.h": """struct ib_device_ops {
	int (*create_cq)(struct ib_cq *cq,
			 struct ib_udata *udata);
	int (*other)(struct uverbs_attr_bundle *attrs);
	int (*reg_user_mr_dmabuf)(int fd, struct ib_udata *udata);
	int (*resize_cq)(struct ib_cq *cq, int cqe);
};
""", "rdma/ib_umem.h": "struct ib_umem *ib_umem_get(int access);\n", "rdma/ib_umem_odp.h": "dma_addr_t *dma_list;\n",
       "linux/mm.h": "", "linux/dma-mapping.h": ""}
NEW = {"rdma/ib_verbs.h": """enum { IB_ACCESS_FLUSH_GLOBAL };
struct ib_device_ops {
	int (*create_cq)(struct ib_cq *cq,
			 struct uverbs_attr_bundle *attrs);
	int (*reg_user_mr)(int fd,
			   struct ib_dmah *dmah);
	int (*reg_user_mr_dmabuf)(int fd,
				  struct uverbs_attr_bundle *attrs);
	int (*resize_user_cq)(struct ib_cq *cq, unsigned int cqe);
	int (*fill_res_srq_entry)(struct sk_buff *msg);
};
""", "rdma/ib_umem.h": "struct ib_umem *ib_umem_get_va(int access);\n",
       "rdma/ib_umem_odp.h": "struct hmm_dma_map map;\n",
       "linux/mm.h": "void vm_flags_mod(void);\n", "linux/dma-mapping.h": "bool dma_dev_need_sync(void);\n"}
FOUND_IN_NEW = {"CREATE_CQ_ATTRS", "REG_DMABUF_ATTRS", "REG_MR_DMAH", "RESIZE_USER_CQ", "FILL_RES_SRQ", "PLACEMENT",
                "UMEM_GET_VA", "VM_FLAGS_MOD", "DMA_DEV_NEED_SYNC"}


def _features(headers: dict[str, str], tree, *settings: str) -> set[str]:
    """The features that Kbuild finds in a kernel tree with these headers."""
    for name, text in headers.items():
        file = tree / "include" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tree / "Makefile").write_text(f"include {DRIVER}/Kbuild\nall: ; @echo $(ccflags-y)\n")
    said = subprocess.run(["make", "-s", "-C", tree, f"srctree={tree}", f"src={DRIVER}", *settings, "all"], check=True,
                          capture_output=True, text=True).stdout
    return set(re.findall(r"-DPIB_HCA_HAS_(\w+)", said))


@pytest.mark.parametrize("headers, expected", [(OLD, set()), (NEW, FOUND_IN_NEW)], ids=["old", "new"])
def test_the_driver_takes_its_features_from_the_kernels_headers(tmp_path, headers, expected):
    assert _features(headers, tmp_path) == expected


def test_on_demand_paging_is_found_on_old_and_new_kernels(tmp_path):
    paging = "CONFIG_INFINIBAND_ON_DEMAND_PAGING=y"
    assert _features(OLD, tmp_path / "old", paging) == {"ODP", "ODP_DMA_LIST"}
    assert _features(NEW, tmp_path / "new", paging) == FOUND_IN_NEW | {"ODP"}


def _include(tree, *absent: str) -> subprocess.CompletedProcess:
    """Preprocesses compat.h with empty headers of the kernel, all but the absent ones."""
    for name in INCLUDE.findall((DRIVER / "compat.h").read_text()):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        if name not in absent:
            (tree / name).touch()
    return subprocess.run(["gcc", "-E", "-nostdinc", "-I", tree, DRIVER / "compat.h"], capture_output=True, text=True,
                          check=False)


def test_a_kernel_without_the_header_of_dma_block_iterators_suffices(tmp_path):
    done = _include(tmp_path, "rdma/iter.h")
    assert done.returncode == 0, done.stderr
    assert _include(tmp_path / "other", "rdma/ib_umem.h").returncode
    assert [file.name for file in sorted(DRIVER.glob("*.[ch]")) if "rdma/iter.h" in file.read_text()] == ["compat.h"]
