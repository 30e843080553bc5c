"""`python -m tests.soak --kills 500 --seed 1`: kill a part of `pipeline run` at random, then run it again.

The victim is the laptop's command, the connection, sshd's session, the agent, the supervisor, the trainer, or all of
the host's processes at once, with SIGKILL, over a real sshd. After each kill, every invariant of tests/soak/oracle.py
must hold. Prints one line per kill; for a violation, also the command that replays it and the folder with all files.
Exit code 1 after a violation. `--from N` continues at round N. All its processes end with it, and several soaks can run
at the same time.
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
    parser.add_argument("--only", type=int, nargs="+", default=[], help="only these kills")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a violation")
    wanted = parser.parse_args(words)
    # SIGINT is ignored in background jobs of a script; both signals must end the soak and its processes.
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
            say(f"replay: python -m tests.soak --seed {wanted.seed} --only {number}; files: {left}")
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
    """Return True if every invariant held. Seed and number determine kind, victim, stage and time of the kill."""
    lines: list[str] = []
    began = time.monotonic()
    try:
        play(soak, random.Random(f"{seed}:{number}"), lines.append)
    except AssertionError as violation:
        say(f"{number}: {lines[-1] if lines else ''}: VIOLATION {violation}")
        return False
    say(f"{number}: {lines[-1]}: passed ({time.monotonic() - began:.1f} s)")
    return True


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
