# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks the driver's sources with sparse. No guest runs for it, but the guests' build tree is needed."""
import pytest

from lab.base import paths
from lab.build import guest_build, kernel_module, sparse
from lab.guests import guest_kernel


@pytest.fixture(name="base", scope="module")
def built():
    base = guest_kernel.image()
    guest_build.build(base)
    return base


def test_the_driver_has_no_complaints(base):
    files = sorted((paths.ROOT / kernel_module.DRIVER).glob("*.c"))
    assert len(files) > 15
    assert sparse.complaints(base, files) == []


def test_a_wrong_byte_order_is_noticed(base, tmp_path):
    bad = tmp_path / "bad.c"
    bad.write_text("#include <linux/types.h>\nu32 f(__le32 x);\nu32 f(__le32 x)\n{\n\treturn x;\n}\n")
    assert any("incorrect type" in line for line in sparse.complaints(base, [bad], "qp"))
