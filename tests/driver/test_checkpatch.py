# SPDX-License-Identifier: GPL-2.0-or-later
"""The driver's sources against the kernel's coding style, the glue's against QEMU's."""
import pytest

from lab.base import ui
from lab.build import checkpatch

STYLES = {"kernel": (checkpatch.KERNEL, checkpatch.driver_files, 15),
          "qemu": (checkpatch.QEMU, checkpatch.glue_files, 7)}
BAD = ("// SPDX-License-Identifier: GPL-2.0\n#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 1, 0)\nint f(void) {\n"
       "  return(0);\n}\n#endif\n")
# Distributions take changes earlier: the driver asks headers, never a version.
NOTICED = {"kernel": ("OPEN_BRACE", "RETURN_PARENTHESES", "LINUX_VERSION_CODE"),
           "qemu": ("return is not a function", "open brace")}


@pytest.fixture(name="style", params=STYLES)
def fetched(request):
    try:
        checkpatch.ensure(STYLES[request.param][0])
    except ui.LabError as error:
        pytest.skip(f"no checkpatch: {error}")
    return request.param


def test_the_sources_are_in_style(style):
    rules, files, least = STYLES[style]
    assert len(files()) > least
    assert checkpatch.complaints(files(), rules) == []


def test_a_fault_is_noticed(style, tmp_path):
    bad = tmp_path / "bad.c"
    bad.write_text(BAD)
    said = "\n".join(checkpatch.complaints([bad], STYLES[style][0]))
    assert all(text in said for text in NOTICED[style]), said
