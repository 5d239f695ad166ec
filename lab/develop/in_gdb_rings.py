# SPDX-License-Identifier: GPL-2.0-or-later
"""Entries of a device's rings, as they are in the guest's memory, for the commands of in_gdb_device.py."""

import gdb

from lab.interface import description, words

QUEUE_HEADER = 64               # PIB_HCA_QUEUE_HEADER_SIZE: a CQ's bytes before its first entry
SQ_PRODUCER, RQ_PRODUCER, SRQ_PRODUCER = 0, 4, 0    # in pib_hca_qp_header and pib_hca_srq_header
COUNTERS = 1 << 32
MOST = 16                       # entries that are printed unless a number is given


def vector(value):
    """Pointers to the entries of a std::vector."""
    entry, end = value["_M_impl"]["_M_start"], value["_M_impl"]["_M_finish"]
    while entry != end:
        yield entry
        entry += 1


def place(buffer, offset):
    """Address, in QEMU, of the byte at an offset in a GuestBuffer; None: the device has no pointer to its pages."""
    ram, shift = int(buffer["ram_"]), int(buffer["log_page_size_"])
    index, pages = offset >> shift, list(vector(buffer["list_"]))
    page = int(pages[index].dereference()) if pages else int(buffer["root_"]) + (index << shift)
    return ram + page + offset % (1 << shift) - int(buffer["low_"]) if ram else None


def entry(buffer, offset, size):
    """Bytes of the ring's memory from an offset on, read page by page."""
    page, data = 1 << int(buffer["log_page_size_"]), b""
    while len(data) < size:
        at, part = place(buffer, offset), min(size - len(data), page - offset % page)
        if at is None:
            raise gdb.GdbError("the device has no pointer to this ring, as with a virtual IOMMU, adversary=, record= "
                               "or trace-dma=on. Read it in the guest:  ./pib gdb NODE")
        data += gdb.selected_inferior().read_memory(at, part).tobytes()
        offset += part
    return data


def counter_at(buffer, offset):
    """A counter in the header of a ring."""
    return int.from_bytes(entry(buffer, offset, 4), "little")


class Ring:
    """Entries of one ring. layout: offset of the first one, log depth, log stride; waits: counters of the first entry
    that was not taken, and of the next one that will be written; names: describes an entry's bytes."""

    def __init__(self, buffer, layout, waits, names):
        self.buffer, self.names = buffer, names
        self.offset, self.log_depth, self.log_stride = layout
        first, self.end = waits
        self.waiting = (self.end - first) % COUNTERS

    def lines(self, most):
        """The last `most` entries; those that wait are marked."""
        depth = 1 << self.log_depth
        for back in range(min(most, depth, max(self.end, self.waiting)), 0, -1):
            counter = (self.end - back) % COUNTERS
            at = self.offset + ((counter % depth) << self.log_stride)
            told = self.names(entry(self.buffer, at, 1 << self.log_stride))
            yield f"  {'*' if back <= self.waiting else ' '} {counter}: {told}"


def _brief(struct):
    return lambda data: " ".join(words.brief(description.interface(), struct, data)) or "empty"


def _work(queue, buffer, producer, names):
    """The ring of a WorkQueue; None if there is none. producer: offset of the producer counter in the header. The
    counter is taken from there, because the device reads it late."""
    if not queue["present"]:
        return None
    return Ring(buffer, (int(queue["offset"]), int(queue["log_depth"]), int(queue["log_stride"])),
                (int(queue["consumer"]), counter_at(buffer, producer)), names)


def _wqe(struct, describe):
    """Describes a WQE in one line. describe: words.send_wqe or words.recv_wqe."""
    def names(data):
        parts = (line.strip() for line in describe(description.interface(), data))
        return " ".join(part.partition(": ")[2] for part in parts if " = " in part) or struct
    return names


def send_ring(qp, kind):
    return _work(qp["sq"], qp["buffer"], SQ_PRODUCER,
                 _wqe("send WQE", lambda interface, data: words.send_wqe(interface, data, kind)))


def receive_ring(qp):
    return _work(qp["rq"], qp["buffer"], RQ_PRODUCER, _wqe("receive WQE", words.recv_wqe))


def srq_ring(srq):
    return _work(srq["queue"], srq["buffer"], SRQ_PRODUCER, _wqe("receive WQE", words.recv_wqe))


def cq_ring(cq):
    """The ring of a CQ. The consumer counter is taken from the guest's memory, because the device reads it only when
    the CQ looks full."""
    size = description.interface().structs["pib_hca_cqe"].size
    return Ring(cq["buffer"], (QUEUE_HEADER, int(cq["log_depth"]), size.bit_length() - 1),
                (counter_at(cq["buffer"], 0), int(cq["producer"])), _brief("pib_hca_cqe"))


def eq_ring(eq):
    size = description.interface().structs["pib_hca_eqe"].size
    return Ring(eq["buffer"], (0, int(eq["log_depth"]), size.bit_length() - 1),
                (int(eq["consumer"]), int(eq["producer"])), _brief("pib_hca_eqe"))
