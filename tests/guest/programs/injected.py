# SPDX-License-Identifier: GPL-2.0-or-later
"""Asynchronous events that the driver's file `inject` in debugfs raises, as a program receives them.

usage: python3 injected.py DEVICE FOLDER

FOLDER is the device's in debugfs. Prints "ok EVENT" for each event that arrives; ends at the first that does not.
"""
import contextlib
import pathlib
import sys

import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

PORT = 1
OF_PORT = {"port_active": e.IBV_EVENT_PORT_ACTIVE, "port_error": e.IBV_EVENT_PORT_ERR,
           "lid_change": e.IBV_EVENT_LID_CHANGE, "pkey_change": e.IBV_EVENT_PKEY_CHANGE,
           "sm_change": e.IBV_EVENT_SM_CHANGE, "client_reregister": e.IBV_EVENT_CLIENT_REREGISTER}
OF_QP = {"communication_established": e.IBV_EVENT_COMM_EST, "sq_drained": e.IBV_EVENT_SQ_DRAINED,
         "path_migrated": e.IBV_EVENT_PATH_MIG, "path_mig_failed": e.IBV_EVENT_PATH_MIG_ERR,
         "last_wqe_reached": e.IBV_EVENT_QP_LAST_WQE_REACHED, "qp_fatal": e.IBV_EVENT_QP_FATAL,
         "qp_request_error": e.IBV_EVENT_QP_REQ_ERR, "qp_access_error": e.IBV_EVENT_QP_ACCESS_ERR}
FATAL = "device_fatal"
ERRORS = ("qp_fatal", "qp_request_error", "qp_access_error")
OF_SRQ = {"srq_limit_reached": e.IBV_EVENT_SRQ_LIMIT_REACHED, "srq_error": e.IBV_EVENT_SRQ_ERR}


class Bench:
    def __init__(self, device, folder):
        self.context, self.folder = Context(name=device), folder
        self.pd, self.cq = PD(self.context), CQ(self.context, 4)

    def numbers(self, kind):
        """Numbers of the device's objects: CQs or SRQs, whose numbers libibverbs does not return."""
        return {line.split()[1] for line in (self.folder / kind).read_text().splitlines()}

    def new(self, kind, create):
        """Creates an object; returns it and its number."""
        before = self.numbers(kind)
        created = create()
        return created, (self.numbers(kind) - before).pop()

    def qp(self, cq):
        init = QPInitAttr(qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq, cap=QPCap(max_send_wr=1, max_recv_wr=1))
        attr = QPAttr(port_num=PORT)
        attr.qkey = 1
        qp = QP(self.pd, init)
        qp.to_init(attr)
        return qp

    def inject(self, event, number):
        # A device that has failed does not complete the command.
        with contextlib.suppress(OSError) if event == FATAL else contextlib.nullcontext():
            (self.folder / "inject").write_text(f"{event} {number}")

    def raised(self, event, number, wanted, also=()):
        """Raises an event, which has to arrive; also: events that may arrive before it."""
        self.inject(event, number)
        while True:
            got = self.context.get_async_event()
            got.ack()
            if got.event_type == wanted:
                break
            if got.event_type not in also:
                sys.exit(f"{event}: event {got.event_type} instead of {wanted}")
        print(f"ok {event}", flush=True)

    def queue_pairs(self):
        qp = self.qp(self.cq)
        for event, wanted in OF_QP.items():
            self.raised(event, qp.qp_num, wanted)
            if event in ERRORS:
                if qp.query(e.IBV_QP_STATE)[0].qp_state != e.IBV_QPS_ERR:
                    sys.exit(f"{event} leaves its QP as it was")
                qp = self.qp(self.cq)

    def queues(self):
        _srq, number = self.new("srqs", lambda: SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=1, max_sge=1))))
        for event, wanted in OF_SRQ.items():
            self.raised(event, number, wanted)
        _cq, number = self.new("cqs", lambda: CQ(self.context, 4))
        self.raised("cq_error", number, e.IBV_EVENT_CQ_ERR)

    def ports(self):
        for event, wanted in OF_PORT.items():
            # The subnet manager may answer a change of the port with one of its own.
            self.raised(event, PORT, wanted, also=OF_PORT.values())
        # The kernel reads the table after gid_change, and tells programs only of entries that differ.
        self.inject("gid_change", PORT)
        print("ok gid_change", flush=True)


def main():
    bench = Bench(sys.argv[1], pathlib.Path(sys.argv[2]))
    bench.queue_pairs()
    bench.queues()
    bench.ports()
    bench.raised(FATAL, 0, e.IBV_EVENT_DEVICE_FATAL, also=OF_PORT.values())


if __name__ == "__main__":
    main()
