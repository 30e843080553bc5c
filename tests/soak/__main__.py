"""`python -m tests.soak --kills 500 --seed 1`: kill a part of `pipeline run` at random, then run it again.

Struck are the laptop's command, the line, sshd's session, the agent, the supervisor, the trainer, or all of the host's
processes at once, with SIGKILL, over a real sshd. After each blow every invariant of tests/soak/oracle.py must hold.
Prints a line a kill; a violation says how to replay it and where everything lies as it was left. Exit 1 where there
was one. `--from N` goes on where one stopped. Nothing it starts outlives it, and it may run while others do.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.kills import end_all
from tests.soak.rounds import Soak, play, prepare
from tests.soak.world import new_world


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", type=int, default=1, dest="first", help="number of the first kill")
    parser.add_argument("--only", type=int, nargs="+", default=[], help="these kills alone")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a violation")
    wanted = parser.parse_args(words)
    # Begun in the background of a script, SIGINT would be ignored: either signal ends us, and what we started with us.
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda *_: sys.exit(1))
    numbers = wanted.only or range(wanted.first, wanted.kills + 1)
    root = Path(tempfile.mkdtemp(prefix="soak-"))
    world = new_world(root)
    violations = 0
    try:
        soak = prepare(world)
        for number in numbers:
            if play_one(soak, wanted.seed, number):
                continue
            violations += 1
            world.save(f"violation-{number}")
            end_all(world)
            left = world.saved / f"violation-{number}"
            say(f"replay: python -m tests.soak --seed {wanted.seed} --only {number}; as it was left: {left}")
            if not wanted.keep_going:
                return 1
    finally:
        end_all(world)
        world.close()
        if not violations:
            shutil.rmtree(root)
    say(f"{len(numbers)} kills, {violations} violations")
    return int(violations > 0)


def play_one(soak: Soak, seed: int, number: int) -> bool:
    """Whether every invariant held. Seed and number choose kind, victim, stage and the share of it that has passed."""
    lines: list[str] = []
    began = time.monotonic()
    try:
        play(soak, random.Random(f"{seed}:{number}"), lines.append)
    except AssertionError as violation:
        say(f"{number}: {lines[-1] if lines else ''}: VIOLATION {violation}")
        return False
    say(f"{number}: {lines[-1]}: all held ({time.monotonic() - began:.1f} s)")
    return True


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
