# SPDX-License-Identifier: GPL-2.0-or-later
"""A minimal driver: command queue, an async EQ, MADs to the device's own ports. See docs/device-spec.md."""
import struct

REG_CONTROL, REG_STATUS, REG_FATAL_CAUSE = 0x004, 0x008, 0x00C
REG_CMDQ_BASE, REG_CMDQ_CPL_BASE, REG_CMDQ_LOG_DEPTH, REG_CMDQ_DOORBELL = 0x020, 0x028, 0x030, 0x034
REG_TEST_IRQ = 0x03C
ENABLED, FATAL = 1, 2
FATAL_EQ_DMA = 3
EVENT_CQ_ERROR, EVENT_QP_FATAL, EVENT_QP_ACCESS_ERROR, EVENT_PORT = 0x04, 0x05, 0x07, 0x09
UAR_EQ = 0x10
EQ_ARM = 1 << 24

CMD_NOP, CMD_MAD_IFC = 0x00, 0x07
CMD_CREATE_MR, CMD_CREATE_EQ, CMD_CREATE_CQ, CMD_CREATE_QP = 0x20, 0x30, 0x40, 0x50
STATUS_OK, STATUS_BAD_MEMORY = 0x00, 0x09
LOG_DEPTH = 4
LOG_EQ = 12  # room for an event of each command, also of tests that poll by commands
EQ_ASYNC = 1

METHOD_GET, METHOD_SET = 1, 2
ATTR_PORT_INFO = 0x15
PORT_INFO_LID, PORT_INFO_STATE = 16, 32
PORT_DOWN, PORT_INIT, PORT_ARMED, PORT_ACTIVE = 1, 2, 3, 4


def pages(address, count=1, levels=0, log_page_size=12):
    """struct pib_hca_pages"""
    return struct.pack("<QIBBH", address, count, levels, log_page_size, 0)


class Driver:
    """Drives one function whose BARs are mapped, with memory of its own from `base` on."""

    def __init__(self, hca, base=0x100000):
        self.hca = hca
        self.commands, self.completions, self.input, self.output = (
            base + 0x1000 * n for n in range(4))
        self.eq = base + 0x10000
        self.free = base + 0x20000
        self.count = 0
        self.result = 0
        self.eqn = None

    def enable(self):
        self.hca.qtest.write_memory(self.completions, bytes(4096))
        self.hca.write(0, REG_CMDQ_BASE, self.commands, 8)
        self.hca.write(0, REG_CMDQ_CPL_BASE, self.completions, 8)
        self.hca.write(0, REG_CMDQ_LOG_DEPTH, LOG_DEPTH)
        self.hca.write(0, REG_CONTROL, 1)
        self.count = 0
        return self

    def status(self):
        return self.hca.read(0, REG_STATUS)

    def post(self, opcode, data=b"", out_length=0, obj=0):
        """Writes the next command and its doorbell, without waiting for the completion."""
        if data:
            self.hca.qtest.write_memory(self.input, data)
        return self._post(opcode, len(data), out_length, obj)

    def _post(self, opcode, in_length, out_length, obj):
        slot = self.count % (1 << LOG_DEPTH)
        entry = struct.pack("<HHIQQII32x", opcode, self.count & 0xFFFF, obj,
                            self.input if in_length else 0, self.output if out_length else 0,
                            in_length, out_length)
        self.hca.qtest.write_memory(self.commands + 64 * slot, entry)
        self.count += 1
        self.hca.write(0, REG_CMDQ_DOORBELL, self.count)
        return slot

    def command(self, opcode, data=b"", out_length=0, obj=0):
        """Executes a command; returns the status. `result` and the memory at `output` have the rest."""
        return self._complete(self.post(opcode, data, out_length, obj))

    def command_raw(self, opcode, in_length):
        """As command(), with the input that is already at `input`."""
        return self._complete(self._post(opcode, in_length, 0, 0))

    def _complete(self, slot):
        completion = self.hca.qtest.read_memory(self.completions + 16 * slot, 16)
        self.result, _, number, status, owner = struct.unpack("<IIHB4xB", completion)
        assert number == (self.count - 1) & 0xFFFF, "the completion is another command's"
        assert owner & 1 == 1 - ((self.count - 1) >> LOG_DEPTH) % 2, "no completion"
        return status

    def create_async_eq(self, vector=0):
        size = 16 << LOG_EQ
        self.hca.qtest.command("memset", hex(self.eq), size, 0)
        assert self.command(CMD_CREATE_EQ, pages(self.eq, size // 4096) +
                            struct.pack("<IBB10x", vector, LOG_EQ, EQ_ASYNC)) == STATUS_OK
        self.eqn = self.result
        return self

    def rings_fatal(self):
        """Makes the device write an event; returns whether the device has stopped."""
        self.post(CMD_NOP)
        return self.status() & FATAL != 0

    def arm(self, consumer=0):
        self.hca.write(2, UAR_EQ, consumer << 32 | EQ_ARM | self.eqn, 8)

    def events(self):
        """Types of all events since the creation of the EQ, which must not have wrapped."""
        ring = self.hca.qtest.read_memory(self.eq, 16 << LOG_EQ)
        return [ring[at] for at in range(0, len(ring), 16) if ring[at + 15] & 1]

    def mad(self, method, attribute, modifier, data=bytes(64), port=1):
        """Sends a LID-routed SMP to the device's own agent; returns the answer's 64 bytes of data."""
        smp = bytearray(256)
        smp[0:4] = bytes((1, 1, 1, method))
        smp[16:24] = struct.pack(">HHI", attribute, 0, modifier)
        smp[64:128] = data
        request = self.mad_ifc(smp)
        assert self.command(CMD_MAD_IFC, request, 256, port) == STATUS_OK
        return self.hca.qtest.read_memory(self.output + 64, 64)

    @staticmethod
    def mad_ifc(smp):
        """struct pib_hca_mad_ifc: the MAD, then its origin. The M_Key is not checked."""
        return bytes(smp) + struct.pack("<IHHBB6x", 0, 0xFFFF, 0, 0, 1)

    def port_info(self):
        return bytearray(self.mad(METHOD_GET, ATTR_PORT_INFO, 1))

    def port_state(self):
        return self.port_info()[PORT_INFO_STATE] & 0xF

    def set_port(self, state, lid=1):
        info = self.port_info()
        info[PORT_INFO_LID:PORT_INFO_LID + 2] = struct.pack(">H", lid)
        info[PORT_INFO_STATE] = state
        info[PORT_INFO_STATE + 1] &= 0x0F  # PortPhysicalState: no change
        self.mad(METHOD_SET, ATTR_PORT_INFO, 1, bytes(info))
