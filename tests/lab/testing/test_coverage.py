# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of ./pib test coverage."""
from lab.testing import coverage


def test_files_count_for_their_folder_and_for_the_total():
    def file(name, *numbers):
        keys = ("line_covered", "line_total", "branch_covered", "branch_total")
        return {"filename": name, **dict(zip(keys, numbers))}

    shares = coverage.by_folder({"files": [file("ib/wire/crc.cc", 9, 10, 1, 2), file("ib/wire/mad.h", 1, 10, 0, 0),
                                           file("qemu-hw/core/device.cc", 5, 5, 2, 4),
                                           file("qemu-hw/core/port/sma.cc", 0, 5, 0, 1)]})
    assert {name: (str(lines), str(branches)) for name, (lines, branches) in shares.items() if lines.total} == {
        "ib/wire": ("50.0 %", "50.0 %"), "qemu-hw/core": ("100.0 %", "50.0 %"), "qemu-hw/core/port": ("0.0 %", "0.0 %"),
        "all": ("50.0 %", "42.9 %")}
