"""The most memory that a peer takes for a case, in a process of its own. Linux only."""
import multiprocessing, pathlib, re

import torch

CALLS = 3  # after the first nothing new is kept


def status(field):
    """Bytes, from what the system says of this process: VmRSS now, VmHWM the most so far."""
    text = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"^{field}:\s*(\d+) kB$", text, re.M)[1])


def measure(peer, case, threads):
    """Beyond what the libraries themselves take when loaded."""
    torch.set_num_threads(threads)
    before = status("VmRSS")
    call = peer.prepare(case, case.inputs())
    for _ in range(CALLS):
        call()
    return status("VmHWM") - before


def of_peer(peer, case, threads):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (peer, case, threads))
