"""A tree is streamed: the laptop's memory does not grow with its size."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import remote

SEND = """
import sys
from pathlib import Path
from remote.link.agent import AgentHost
from remote.protocol.tree import TreeSurvey
from remote.protocol.values import decode
from remote.project.scan import scan_project
from remote.sync.sync import sync_project
from remote.link.streams import LocalStarter

scan = scan_project(Path(sys.argv[1]))
host = AgentHost("box", LocalStarter(), workdir=sys.argv[2])
report = sync_project(host, scan, decode(TreeSurvey, host.ask("tree.survey", {"project": scan.project})))
host.close()
# Not ru_maxrss: that begins at what the process that started this one had.
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(report.sent_bytes, peak // 1024)
"""


def test_sending_a_tree_of_200_mb_takes_less_than_100_mb_of_memory(tmp_path):
    root = tmp_path / "speech"
    root.mkdir()
    block = random.Random(1).randbytes(20 * 10**6)
    for number in range(10):
        (root / f"{number}.bin").write_bytes(number.to_bytes(4, "big") + block)
    argv = [sys.executable, "-c", SEND, root, tmp_path / "workdir"]
    environment = {**os.environ, "PYTHONPATH": str(Path(remote.__file__).parents[1])}
    completed = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True, timeout=120)
    sent, peak_mib = map(int, completed.stdout.split())
    assert sent == 200_000_040 and peak_mib < 100
