"""Peak memory of the laptop's process while it sends a tree of 1 GB."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from benchmarks.sync.destinations import Destination, forget

GOAL_MIB = 150

SEND = """
import sys
from pathlib import Path
from remote.link.address import Address
from remote.protocol.tree import TreeSurvey
from remote.protocol.values import decode
from remote.link.reach import open_host
from remote.project.scan import scan_project
from remote.sync.sync import sync_project

root, listen, port, user, key, known, workdir = sys.argv[1:]
address = Address("near", listen, int(port), user, key, known, workdir=workdir)
host, scan = open_host(address), scan_project(Path(root))
tree = decode(TreeSurvey, host.ask("tree.survey", {"project": scan.project}))
assert sync_project(host, scan, tree).sent_bytes >= 10**9
host.close()
# Not ru_maxrss: that begins at what the process that started this one had.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def measure_memory(destination: Destination, root: Path) -> bool:
    """Print the peak memory, and return True if it is under the goal."""
    block = random.Random(3).randbytes(20 * 10**6)
    root.mkdir(parents=True)
    for number in range(50):
        (root / f"{number}.bin").write_bytes(number.to_bytes(4, "big") + block)
    address, folder = destination.server.address(), destination.remote / "memory"
    words = (address.host, address.port, address.user, address.identity_file, address.known_hosts, folder)
    argv = [sys.executable, "-c", SEND, str(root), *map(str, words)]
    completed = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    forget(root, folder)
    peak_mib = int(completed.stdout) // 1024
    print(f"\nmemory while sending 1 GB: {peak_mib} MiB   < {GOAL_MIB}")
    return peak_mib < GOAL_MIB
