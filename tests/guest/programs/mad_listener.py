# SPDX-License-Identifier: GPL-2.0-or-later
"""An agent of the subnet administration's class for which the kernel does RMPP, as for saquery.

usage: python3 mad_listener.py DEVICE SM_LID

Queries the SA's ClassPortInfo and prints the upper half of the transaction ID with which the kernel sent the query:
MADs with it belong to this agent. Then reads MADs until its standard input ends, and prints their number.
"""
import sys
import threading

from mads import HEADER, SA_VERSION, SUBN_ADM, Agent

KERNEL_RMPP = 1
GET, CLASS_PORT_INFO = 1, 1
TIMEOUT_MS, RETRIES = 20000, 10


def main():
    agent = Agent(sys.argv[1], 1, SUBN_ADM, SA_VERSION, KERNEL_RMPP)
    query = HEADER.pack(1, SUBN_ADM, SA_VERSION, GET, 0, 0, 1, CLASS_PORT_INFO, 0, 0)
    agent.send(int(sys.argv[2]), query, TIMEOUT_MS, RETRIES)
    answer = agent.receive(RETRIES * TIMEOUT_MS)
    if answer is None:
        sys.exit("the subnet administrator does not answer")
    print(HEADER.unpack_from(answer)[6] >> 32, flush=True)
    ends = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ends.set()), daemon=True).start()
    heard = 0
    while not ends.is_set():
        heard += agent.receive(100) is not None
    print(f"heard {heard}")


main()
