"""Compare `run` on a finished run with an rsync that has nothing to send: `python -m benchmarks.finished`.

`pipeline run` and rsync run alternately on the same project and server, each as a new process with a new connection.
`run` checks all six stages. The round trip is 0 ms in the first measurement and 50 ms in the second, in which an
emulated link delays real packets (needs root). `--help` is timed too.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.e2e.plain_project import write_plain_project
from tests.e2e.user import User
from tests.lab.delayed_link import DelayedLink, why_no_delayed_link
from tests.lab.sshd import Sshd

GOAL = 0.7


def timed(act: Callable[[], None]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def in_turn(first: Callable[[], None], second: Callable[[], None], rounds: int) -> tuple[float, float, float]:
    """Return the median of each program in seconds, and the median ratio. The first round is not counted."""
    pairs = [(timed(first), timed(second)) for _ in range(rounds + 1)][1:]
    ratios = [a / b for a, b in pairs]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs), statistics.median(ratios)


def finished_run(root: Path, server: Sshd, rounds: int) -> tuple[float, float, float]:
    """Measure `pipeline run` with nothing to do against `rsync -az` with nothing to do."""
    user = User(root / "project", root / "laptop")
    write_plain_project(user.project, extra_files=200)
    host = user.write_host_file("titan", server, folder=root / "hosts")
    words = ("run", "--host", str(host), "--config", "plain", "--json")
    done = user.run_pipeline(*words)
    assert done.code == 0, done.out + done.err

    def ours() -> None:
        assert set(user.run_pipeline(*words).states.values()) == {"skipped"}

    trust = f"-o IdentitiesOnly=yes -F /dev/null -o UserKnownHostsFile={server.known_hosts}"
    ssh = f"ssh -p {server.port} -i {server.user_key} {trust}"
    argv = [
        "rsync",
        "-az",
        "--delete",
        "--exclude=.halfstep",
        "-e",
        ssh,
        f"{user.project}/",
        f"{server.listen}:{server.home}/rsynced/",
    ]
    subprocess.run(argv, check=True)
    return in_turn(ours, lambda: subprocess.run(argv, check=True) and None, rounds)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args(words).rounds
    with tempfile.TemporaryDirectory(prefix="finished-") as folder:
        root = Path(folder)
        near = Sshd(root / "near").start()
        try:
            report(0, finished_run(root / "at-0", near, rounds))
        finally:
            near.close()
        if reason := why_no_delayed_link():
            sys.stdout.write(f"50 ms not measured: {reason}\n")
        else:
            line = DelayedLink(root / "line").start()
            far = Sshd(root / "far", listen=line.far, prefix=line.prefix).start()
            try:
                report(50, finished_run(root / "at-50", far, rounds))
            finally:
                far.close()
                line.close()
    show_help = [sys.executable, "-m", "pipeline", "--help"]
    seconds = [
        timed(lambda: subprocess.run(show_help, check=True, stdout=subprocess.DEVNULL) and None) for _ in range(rounds)
    ]
    sys.stdout.write(f"pipeline --help: {statistics.median(seconds):.3f} s (goal 0.2)\n")
    return 0


def report(round_trip_ms: int, figures: tuple[float, float, float]) -> None:
    ours, rsync, ratio = figures
    sys.stdout.write(
        f"round trip {round_trip_ms:>2} ms: pipeline run {ours:.2f} s, rsync -az {rsync:.2f} s, "
        f"ratio {ratio:.2f} (goal {GOAL} at 50 ms)\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
