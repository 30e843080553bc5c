"""The table of results, and its goals."""

from __future__ import annotations

import statistics

from benchmarks.sync.destinations import Destination
from benchmarks.sync.project import SAMPLES

CASES = ("first copy", "nothing changed", "one file changed", "200 MB file")
PEERS = {case: "rsync -a" if case == "200 MB file" else "rsync -az" for case in CASES}
GOALS = {
    (50, "first copy", "pipeline run"): 0.95,
    (50, "nothing changed", "pipeline run"): 0.65,
    (50, "one file changed", "pipeline run"): 0.7,
    (50, "first copy", "sync alone"): 0.9,
    (50, "nothing changed", "sync alone"): 0.55,
    (50, "one file changed", "sync alone"): 0.55,
    (50, "200 MB file", "sync alone"): 1.0,
    (0, "first copy", "sync alone"): 1.2,
    (0, "nothing changed", "sync alone"): 1.2,
    (0, "one file changed", "sync alone"): 1.2,
    (0, "200 MB file", "sync alone"): 1.2,
}
"""The goals by round trip in ms, case and row: the largest allowed ratio to the peer's time."""


def print_table(destination: Destination) -> bool:
    """Print the rows of one destination, and return True if every goal was met."""
    met = True
    print(f"\nround trip {destination.round_trip_ms} ms{'':24}seconds  (quartiles)   of rsync   goal")
    for case in CASES:
        base = statistics.median(destination.seconds[case, PEERS[case]])
        for (at, name), seconds in destination.seconds.items():
            if at != case:
                continue
            ratio = statistics.median(seconds) / base
            verdict = ""
            goal = GOALS.get((destination.round_trip_ms, case, name))
            if goal is not None:
                met &= ratio <= goal
                verdict = f"<= {goal:.2f} {'met' if ratio <= goal else 'MISSED'}"
            sampled = f" (from {SAMPLES[1]} files)" if (at, name) in destination.sampled else ""
            print(f"  {case:17} {name:14} {in_words(seconds)} {ratio:9.2f}x   {verdict}{sampled}")
    return met


def in_words(seconds: list[float]) -> str:
    """Return the median and the quartiles as text."""
    if len(seconds) < 3:
        return f"{statistics.median(seconds):14.2f} {'':13}"
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return f"{middle:14.2f} ({low:5.2f}-{high:5.2f})"
