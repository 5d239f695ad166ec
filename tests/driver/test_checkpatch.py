# SPDX-License-Identifier: GPL-2.0-or-later
"""The driver's sources against the kernel's coding style."""
import pytest

from lab import ui
from lab.build import checkpatch


@pytest.fixture(scope="module")
def script():
    try:
        return checkpatch.ensure()
    except ui.LabError as error:
        pytest.skip(f"checkpatch is not to be had: {error}")


def test_the_driver_is_in_the_kernels_style(script):
    files = checkpatch.driver_files()
    assert len(files) > 15
    assert checkpatch.complaints(files) == []


def test_a_fault_is_noticed(script, tmp_path):
    bad = tmp_path / "bad.c"
    bad.write_text("// SPDX-License-Identifier: GPL-2.0\nint f(void) {\n  return(0);\n}\n")
    said = "\n".join(checkpatch.complaints([bad]))
    assert "OPEN_BRACE" in said and "RETURN_PARENTHESES" in said
