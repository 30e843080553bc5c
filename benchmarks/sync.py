"""Syncing against the tools one would use instead, in the same run: `python -m benchmarks.sync [--full] [--rounds N]`.

2,000 Python files (20 MB, made from a seed) and one file of 200 MB go to a real OpenSSH server, on loopback and behind
a line of real packets with 50 ms of round trip. Every figure has its connection in it, opened anew; the median of the
rounds counts. `goal` is what a row must stay under: a share of rsync's time in the same run. Needs root for the line.
"""

from __future__ import annotations

import argparse
import contextlib
import filecmp
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import fabric
import paramiko

from remote.protocol.tree import TreeSurvey
from remote.protocol.values import decode
from remote.reach import open_host
from remote.sync.identity import project_of
from remote.sync.scan import Limits, scan_project
from remote.sync.sync import sync_project
from tests.lab.distance import Distance, why_no_distance
from tests.lab.sshd import Sshd

FILES, TREE_BYTES, BLOB_BYTES = 2000, 20 * 2**20, 200 * 2**20
LIMITS = Limits(file_bytes=2 * 2**30, total_bytes=4 * 2**30)
SAMPLES = (10, 60)
SLOW_PLACES = ("scp", "sftp", "fabric")
GOALS = {
    (50, "first copy"): ("rsync -az", 0.9),
    (50, "nothing changed"): ("rsync -az", 0.55),
    (50, "one file changed"): ("rsync -az", 0.55),
    (50, "200 MB file"): ("rsync -a", 1.0),
    (0, "first copy"): ("rsync -az", 1.2),
    (0, "nothing changed"): ("rsync -az", 1.2),
    (0, "one file changed"): ("rsync -az", 1.2),
    (0, "200 MB file"): ("rsync -a", 1.2),
}


@dataclass
class Place:
    """A server and what is needed to reach it; `there` is a folder of its own on it."""

    server: Sshd
    there: Path
    round_trip_ms: int
    seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    sampled: set[tuple[str, str]] = field(default_factory=set)

    @property
    def ssh(self) -> str:
        server = self.server
        return (
            f"ssh -p {server.port} -i {server.user_key} -o IdentitiesOnly=yes -o BatchMode=yes -F /dev/null"
            f" -o UserKnownHostsFile={server.known_hosts} -o LogLevel=ERROR"
        )

    def timed(self, case: str, name: str, act: Callable[[], None]) -> None:
        began = time.perf_counter()
        act()
        self.seconds.setdefault((case, name), []).append(time.perf_counter() - began)


def make_tree(root: Path) -> None:
    """2,000 modules that compress about as code does, the same in every run."""
    rng = random.Random(2026)
    words = [f"{a}_{b}" for a in ("load", "batch", "audio", "lora", "step", "mask") for b in range(60)]
    for number in range(FILES):
        path = root / f"pkg{number % 40}" / f"sub{number % 14}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines, size = [], 0
        while size < TREE_BYTES // FILES:
            line = f"    {rng.choice(words)} = {rng.choice(words)}({rng.choice(words)}, {rng.randrange(1000)})\n"
            lines.append(line)
            size += len(line)
        path.write_text("".join(lines))


def ours(place: Place, root: Path) -> None:
    """What `pipeline run` does for its first stage: scan while connecting, one look, one stream."""
    host = open_host(place.server.address(workdir=str(place.there / "halfstep")))
    try:
        with ThreadPoolExecutor(1) as pool:
            scanned = pool.submit(scan_project, root, limits=LIMITS)
            tree = decode(TreeSurvey, host.ask("tree.survey", {"project": project_of(root)}))
            report = sync_project(host, scanned.result(), tree)
        assert report.report.ok, report.report
    finally:
        host.close()


def rsync(place: Place, root: Path, flags: str) -> None:
    there = place.there / f"rsync{flags}"
    argv = [
        "rsync",
        flags,
        "--delete",
        "--exclude=.halfstep",
        "-e",
        place.ssh,
        f"{root}/",
        f"{place.server.listen}:{there}/",
    ]
    subprocess.run(argv, check=True)


def scp(place: Place, root: Path) -> None:
    server = place.server
    options = place.ssh.split()[3:]
    subprocess.run(
        ["scp", "-q", "-r", "-P", str(server.port), *options, root, f"{server.listen}:{place.there}/scp"], check=True
    )


def paramiko_put(place: Place, root: Path) -> None:
    with paramiko.SSHClient() as client:
        client.load_host_keys(str(place.server.known_hosts))
        client.connect(
            place.server.listen, place.server.port, key_filename=str(place.server.user_key), allow_agent=False
        )
        sftp = client.open_sftp()
        put_all(root, place.there / "sftp", sftp.mkdir, sftp.put)


def fabric_put(place: Place, root: Path) -> None:
    options = {"key_filename": str(place.server.user_key), "allow_agent": False, "look_for_keys": False}
    with fabric.Connection(place.server.listen, port=place.server.port, connect_kwargs=options) as connection:
        folder = connection.sftp().mkdir
        put_all(root, place.there / "fabric", folder, connection.put)


def put_all(root: Path, there: Path, mkdir: Callable[[str], None], put: Callable[[str, str], object]) -> None:
    mkdir(str(there))
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".halfstep"]
        inside = there / Path(folder).relative_to(root)
        for name in folders:
            mkdir(str(inside / name))
        for name in names:
            put(str(Path(folder, name)), str(inside / name))


def check_equal(one: Path, other: Path) -> None:
    """Every file is there with its bytes."""
    for path in one.rglob("*"):
        if path.is_file() and ".halfstep" not in path.parts:
            assert filecmp.cmp(path, other / path.relative_to(one), shallow=False), path


def forget(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def fresh(place: Place, number: int) -> Place:
    """A place for one round, with our payload there: nothing is deleted before a round, because a file system that has
    just lost 2,000 files is slow to make new ones (ext4 looks at every inode it has freed within the last minute)."""
    there = place.there / f"round-{number}"
    (there / "halfstep").mkdir(parents=True)
    shutil.copytree(place.there / "halfstep" / "payload", there / "halfstep" / "payload")
    return replace(place, there=there)


def measure_tree(place: Place, root: Path, rounds: int) -> None:
    ours(place, root)  # the payload lies there from now on
    for number in range(rounds):
        now = fresh(place, number)
        mine = now.there / "halfstep/projects" / project_of(root) / "tree"
        now.timed("first copy", "halfstep", lambda now=now: ours(now, root))
        check_equal(root, mine)
        for flags in ("-az", "-a"):
            now.timed("first copy", f"rsync {flags}", lambda now=now, flags=flags: rsync(now, root, flags))
        check_equal(root, now.there / "rsync-az")
        now.timed("nothing changed", "halfstep", lambda now=now: ours(now, root))
        now.timed("nothing changed", "rsync -az", lambda now=now: rsync(now, root, "-az"))
        (root / "pkg3/sub3/module_3.py").write_text(f"x = {number}\n" * 400)
        now.timed("one file changed", "halfstep", lambda now=now: ours(now, root))
        now.timed("one file changed", "rsync -az", lambda now=now: rsync(now, root, "-az"))
        check_equal(root, mine)


def measure_blob(place: Place, root: Path, rounds: int) -> None:
    for number in range(rounds):
        now = fresh(place, 1000 + number)
        forget(root / ".halfstep")
        now.timed("200 MB file", "halfstep", lambda now=now: ours(now, root))
        check_equal(root, now.there / "halfstep/projects" / project_of(root) / "tree")
        now.timed("200 MB file", "rsync -a", lambda now=now: rsync(now, root, "-a"))
        forget(now.there)
    forget(root / ".halfstep")
    for name, act in (("scp", scp), ("paramiko put", paramiko_put), ("fabric put", fabric_put)):
        place.timed("200 MB file", name, lambda act=act: act(place, root))
    forget(*(place.there / name for name in SLOW_PLACES))


def measure_slow_peers(place: Place, root: Path, samples: tuple[Path, Path], *, full: bool) -> None:
    """All files, or what two samples say of them: the connection is in both, the difference is what files cost."""
    forget(root / ".halfstep")
    for name, act in (("scp -r", scp), ("paramiko put", paramiko_put), ("fabric put", fabric_put)):
        seconds = []
        for part in (root,) if full else samples:
            forget(*(place.there / name for name in SLOW_PLACES))
            began = time.perf_counter()
            act(place, part)
            seconds.append(time.perf_counter() - began)
        if not full:
            per_file = (seconds[1] - seconds[0]) / (SAMPLES[1] - SAMPLES[0])
            seconds = [seconds[1] + per_file * (FILES - SAMPLES[1])]
            place.sampled.add(("first copy", name))
        place.seconds["first copy", name] = seconds


def make_sample(root: Path, sample: Path, count: int) -> None:
    for path in sorted(root.rglob("*.py"))[:count]:
        copy = sample / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


MEMORY = """
import sys
from pathlib import Path
from remote.address import Address
from remote.protocol.tree import TreeSurvey
from remote.protocol.values import decode
from remote.reach import open_host
from remote.sync.scan import scan_project
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


def measure_memory(place: Place, root: Path) -> bool:
    """What the laptop's process takes at its peak while a tree of 1 GB goes out; whether that is under 150 MiB."""
    block = random.Random(3).randbytes(20 * 10**6)
    root.mkdir(parents=True)
    for number in range(50):
        (root / f"{number}.bin").write_bytes(number.to_bytes(4, "big") + block)
    address = place.server.address()
    words = (
        address.host,
        address.port,
        address.user,
        address.identity_file,
        address.known_hosts,
        place.there / "memory",
    )
    argv = [sys.executable, "-c", MEMORY, str(root), *map(str, words)]
    told = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    forget(root, place.there / "memory")
    peak_mib = int(told.stdout) // 1024
    print(f"\nmemory while sending 1 GB: {peak_mib} MiB   < 150")
    return peak_mib < 150


def print_table(place: Place) -> bool:
    """The rows of one distance; whether every goal was met."""
    met = True
    print(f"\nround trip {place.round_trip_ms} ms{'':24}seconds   of rsync   goal")
    for case in ("first copy", "nothing changed", "one file changed", "200 MB file"):
        peer, goal = GOALS[place.round_trip_ms, case]
        base = statistics.median(place.seconds[case, peer])
        for (at, name), seconds in place.seconds.items():
            if at != case:
                continue
            median = statistics.median(seconds)
            verdict = ""
            if name == "halfstep":
                good = median / base <= goal
                met &= good
                verdict = f"<= {goal:.2f} {'met' if good else 'MISSED'}"
            sampled = f" (from {SAMPLES[1]} files)" if (at, name) in place.sampled else ""
            print(f"  {case:17} {name:14} {median:14.2f} {median / base:9.2f}x   {verdict}{sampled}")
    return met


@contextlib.contextmanager
def places(folder: Path) -> Iterator[list[Place]]:
    """A server on loopback, and one 50 ms away where this machine can carry the line."""
    with contextlib.ExitStack() as stack:
        near = Sshd(folder / "near").start()
        stack.callback(near.close)
        found = [Place(near, folder / "there-near", 0)]
        if reason := why_no_distance():
            print(f"not measured at 50 ms: {reason}", file=sys.stderr)
        else:
            line = Distance(folder / "line")
            stack.callback(line.close)
            line.start()
            far = Sshd(folder / "far", listen=line.far, prefix=line.prefix)
            stack.callback(far.close)
            found.append(Place(far.start(), folder / "there-far", 50))
        for place in found:
            place.there.mkdir()
        yield found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--full", action="store_true", help="slow peers copy all files, not a sample")
    parser.add_argument("--no-slow", action="store_true", help="leave scp, paramiko put and fabric put out")
    options = parser.parse_args()
    met = True
    with tempfile.TemporaryDirectory(prefix="halfstep-bench-") as name, places(Path(name)) as found:
        tree, blob, few, more = (Path(name) / part / "speech" for part in ("tree", "blob", "few", "more"))
        make_tree(tree)
        make_sample(tree, few, SAMPLES[0])
        make_sample(tree, more, SAMPLES[1])
        blob.mkdir(parents=True)
        (blob / "weights.bin").write_bytes(random.Random(1).randbytes(BLOB_BYTES))
        for place in found:
            measure_tree(place, tree, options.rounds)
            measure_blob(place, blob, min(3, options.rounds))
            if not options.no_slow:
                measure_slow_peers(place, tree, (few, more), full=options.full)
            met &= print_table(place)
        met &= measure_memory(found[0], Path(name) / "memory" / "speech")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
