"""Measure the delay between writing a scalar to an event file on the host and its arrival on the laptop.

The writer is torch's SummaryWriter, used as in the transformers Trainer (one flush per logged step). A scalar's wall
time is the time at which it was written; writer and reader use the clock of one machine. `far` is a real OpenSSH server
behind an emulated link, which delays packets by 25 ms each way. The measured time ends when `tail_scalars` yields the
scalar, after it was written to the mirror.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from remote.host import Host
from remote.link.local import local_host
from remote.link.reach import open_host
from remote.protocol.layout import ProjectLayout
from remote.pull.live import tail_scalars
from tests.lab.delayed_link import DelayedLink, why_no_delayed_link
from tests.lab.sshd import Sshd, have_sshd

KEY, RUN = "bench-00000000", "tail-00000000"
ONE_WAY_MS = 25.0
GOAL_S = 0.5

WRITER = """
import random, sys, time
from pathlib import Path
from torch.utils.tensorboard import SummaryWriter

run, count = Path(sys.argv[1]), int(sys.argv[2])
writer = SummaryWriter(str(run / "tensorboard"))
writer.add_scalar("first", 0.0, 0)
writer.flush()
sys.stdin.readline()
pace = random.Random(7)
for step in range(count):
    time.sleep(pace.uniform(0.0, 0.1))
    for tag in ("loss", "grad_norm", "learning_rate", "loss_scale"):
        writer.add_scalar(tag, float(step), step)
    writer.flush()
writer.close()
(run / "jobs" / "1" / "result.json").write_text("{}")
"""


def measure(host: Host, run: Path, mirror: Path, count: int) -> list[float]:
    """Return the seconds between the writing and the arrival of each scalar."""
    (run / "jobs" / "1").mkdir(parents=True)
    (run / "tensorboard").mkdir()
    argv = [sys.executable, "-c", WRITER, str(run), str(count)]
    writer = subprocess.Popen(argv, stdin=subprocess.PIPE)
    assert writer.stdin
    seconds = []
    batches = tail_scalars(host, KEY, RUN, mirror, job=1)
    for scalar in (scalar for batch in batches for scalar in batch):
        now = time.time()
        if scalar.tag == "first":
            writer.stdin.write(b"go\n")
            writer.stdin.close()
        else:
            seconds.append(now - scalar.wall_time)
    writer.wait(timeout=60)
    return seconds


@contextmanager
def hosts(folder: Path) -> Iterator[dict[str, tuple[Host, Path, float]]]:
    """Yield (host, workdir, round trip in seconds) for each host, by its name."""
    with ExitStack() as stack:
        work = folder / "local"
        found: dict[str, tuple[Host, Path, float]] = {"local": (local_host(str(work)), work, 0.0)}
        if have_sshd():
            near = Sshd(folder / "near").start()
            stack.callback(near.close)
            found["ssh"] = (open_host(near.address(workdir=str(folder / "ssh"))), folder / "ssh", 0.0)
        if have_sshd() and not why_no_delayed_link():
            line = DelayedLink(folder / "line", one_way_ms=ONE_WAY_MS).start()
            stack.callback(line.close)
            far = Sshd(folder / "far", listen=line.far, prefix=line.prefix).start()
            stack.callback(far.close)
            work = folder / "far-work"
            found["far"] = (open_host(far.address(workdir=str(work))), work, 2 * ONE_WAY_MS / 1000)
        for host, _, _ in found.values():
            stack.callback(host.close)
        yield found


def percentile(seconds: list[float], share: float) -> float:
    return sorted(seconds)[min(len(seconds) - 1, math.ceil(share * len(seconds)) - 1)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scalars", type=int, default=200, help="steps logged, four scalars each")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, hosts(Path(folder)) as found:
        for name, (host, work, round_trip_s) in found.items():
            run = work / ProjectLayout(KEY).run(RUN).root
            seconds = measure(host, run, Path(folder, f"mirror-{name}"), options.scalars)
            p50, p95 = percentile(seconds, 0.5), percentile(seconds, 0.95)
            goal = GOAL_S + round_trip_s
            complete = len(seconds) == 4 * options.scalars
            rows.append(
                {"host": name, "scalars": len(seconds), "p50_s": p50, "p95_s": p95, "worst_s": max(seconds),
                 "goal_s": goal, "ok": p95 < goal and complete}
            )  # fmt: skip
    if options.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            times = "  ".join(f"{name} {row[f'{name}_s'] * 1e3:6.1f} ms" for name in ("p50", "p95", "worst", "goal"))
            print(f"{row['host']:<6} {row['scalars']:>5} scalars  {times}  {'ok' if row['ok'] else 'MISSED'}")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
