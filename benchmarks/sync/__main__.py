"""Compare sync with rsync, scp and sftp: `python -m benchmarks.sync [--full] [--rounds N]`.

2,000 Python files (20 MB, generated from a seed) and one file of 200 MB are sent to a real OpenSSH server, on loopback
and over an emulated link with a round trip of 50 ms (needs root). `pipeline run` is the whole program in a new process,
`sync alone` its first stage in a process that has loaded its modules. Each figure is the median of the rounds and
includes a new connection. `goal` is the largest allowed ratio to rsync's time in the same run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.sync.destinations import open_destinations
from benchmarks.sync.memory import measure_memory
from benchmarks.sync.project import make_material
from benchmarks.sync.rounds import measure_blob, measure_slow_peers, measure_tree
from benchmarks.sync.table import print_table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--full", action="store_true", help="slow peers copy all files, not a sample")
    parser.add_argument("--no-slow", action="store_true", help="leave scp, paramiko put and fabric put of files out")
    options = parser.parse_args()
    met = True
    with tempfile.TemporaryDirectory(prefix="halfstep-bench-") as name, open_destinations(Path(name)) as found:
        made = make_material(Path(name))
        for destination in found:
            measure_tree(destination, made.tree, made.twin, options.rounds)
            measure_blob(destination, made.blob, min(3, options.rounds))
            if not options.no_slow:
                measure_slow_peers(destination, made.tree, (made.few, made.more), full=options.full)
            met &= print_table(destination)
        met &= measure_memory(found[0], Path(name) / "memory" / "speech")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
