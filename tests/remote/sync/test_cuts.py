"""After cut connections, killed processes and changing files, the next sync ends as if nothing had happened."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import remote
from remote.errors import ConnectionLost, SyncRefused
from remote.link.reach import open_host
from remote.protocol.exits import ExitCode
from remote.sync.sync import sync_project
from tests.lab.payload import install_payload
from tests.lab.wait import PATIENCE_S, until
from tests.remote.sync.sync_bench import Bench, CuttingStarter, contents, no_wait

SEEDS = 100 if os.environ.get("HALFSTEP_FULL") else 10


def noise(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def settle(bench: Bench) -> None:
    """Check that a sync without faults makes both sides equal, and reports no file as edited by the user."""
    report = bench.sync()
    assert report.report.ok, report.report.findings
    assert contents(bench.tree) == contents(bench.root)
    assert not bench.survey().deviations and not bench.survey().pending
    assert {path.name for path in bench.home.iterdir()} <= {"tree", "sync.json", "stats.json", "owner.json", "lock"}


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_FI_01_a_sync_resumes_after_a_cut_without_resending(tmp_path, share):
    starter = CuttingStarter(after=0)
    bench = Bench(tmp_path / "speech", install_payload(tmp_path / "workdir", byte_code=False), starter)
    bench.write({f"f{number}.bin": noise(100_000, number) for number in range(20)})
    scan, tree = bench.scan(), bench.survey(bench.other_host())
    starter.after = int(2_000_000 * share)
    report = sync_project(bench.host, scan, tree, wait=no_wait)
    assert (starter.hits, report.retries) == (1, 1)
    assert contents(bench.tree) == contents(bench.root)
    assert report.wire_bytes < 2_000_000 + 350_000
    bench.close()


def test_FI_01_a_connection_that_is_always_cut_is_given_up_after_five_tries(tmp_path):
    starter = CuttingStarter(after=1_000, cuts=100)
    bench = Bench(tmp_path / "speech", install_payload(tmp_path / "workdir", byte_code=False), starter)
    bench.write({"f.bin": noise(300_000)})
    scan, tree = bench.scan(), bench.survey(bench.other_host())
    waits: list[float] = []
    with pytest.raises(ConnectionLost):
        sync_project(bench.host, scan, tree, wait=waits.append)
    assert len(waits) == 5 and waits == sorted(waits) and not list(bench.tree.glob("*"))


KILLED = """
import os, signal, sys
from pathlib import Path
from remote.link.agent import AgentHost
from remote.protocol.tree import TreeSurvey
from remote.protocol.values import decode
from remote.project.scan import scan_project
from remote.sync.sync import sync_project
from remote.link.streams import LocalStarter

root, workdir, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def step(done, total):
    global steps
    steps -= 1
    if steps < 0:
        os.kill(os.getpid(), signal.SIGKILL)
scan = scan_project(root)
host = AgentHost("killed", LocalStarter(), workdir=workdir)
sync_project(host, scan, decode(TreeSurvey, host.ask("tree.survey", {"project": scan.project})), progress=step)
"""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_FI_05_a_sync_continues_after_kill_9_of_the_laptop_at_a_random_point(bench, seed):
    """In every second row, the host has an older tree, so that the tree must be the old or the new one."""
    rng = random.Random(seed)
    older = {}
    if seed % 2:
        bench.write({f"f{number}.py": noise(400, seed) for number in range(30)})
        bench.sync()
        older = contents(bench.tree)
    bench.write({f"f{number}.py": noise(rng.randrange(50_000), number + seed) for number in range(40)})
    before = contents(bench.root)
    argv = [sys.executable, "-c", KILLED, bench.root, bench.workdir, str(rng.randrange(40))]
    root = str(Path(remote.__file__).parents[1])
    killed = subprocess.run(argv, env={**os.environ, "PYTHONPATH": root}, check=False, timeout=200)
    assert killed.returncode == -signal.SIGKILL
    bench.close()
    assert contents(bench.root) == before
    if bench.tree.exists():
        for path, what in contents(bench.tree).items():
            assert what in {older.get(path), before.get(path)}
    wait_for_lock(bench)
    settle(bench)


def wait_for_lock(bench: Bench) -> None:
    """Wait until the killed laptop's agent has noticed the lost connection and released the lock."""
    from remote.payload.files.lock import holder  # noqa: PLC0415

    until(lambda: holder(str(bench.home / "lock")) is None, "the end of who holds the lock")


def test_FI_08_a_file_damaged_on_the_host_before_the_manifest_is_sent_again_once(bench, monkeypatch):
    flips = flip_staged(bench, monkeypatch)
    report = bench.sync()
    assert len(flips) == 1 and report.report.ok
    assert contents(bench.tree) == contents(bench.root)


def test_FI_08_a_file_damaged_twice_is_an_error_that_names_it(bench, monkeypatch):
    real, sends = bench.host.send, []
    path = bench.root / "src/model.py"
    good = path.read_bytes()

    def send(op, args, chunks, **options):
        sends.append(op)
        path.write_bytes(b"\0" + good[1:])  # The content differs from its digest in the manifest.
        try:
            return real(op, args, list(chunks), **options)
        finally:
            path.write_bytes(good)

    monkeypatch.setattr(bench.host, "send", send)
    with pytest.raises(SyncRefused, match="arrived damaged twice") as refused:
        bench.sync()
    assert len(sends) == 2 and refused.value.where == "src/model.py" and refused.value.exit_code == ExitCode.SYNC
    assert not contents(bench.tree)
    monkeypatch.undo()
    settle(bench)


def flip_staged(bench: Bench, monkeypatch) -> list[str]:
    """While the stream is being sent, and after `src/model.py` was verified on the host, flip one of its bytes."""
    digest = bench.scan().manifest.rows["src/model.py"].source
    staged = bench.home / "staging" / digest
    flips: list[str] = []
    real = bench.host.send

    def send(op, args, chunks, **options):
        def through():
            *all_but_last, last = [byte for chunk in chunks for byte in split(chunk)]
            yield from all_but_last
            deadline = time.monotonic() + PATIENCE_S
            size = (bench.root / "src/model.py").stat().st_size
            while not flips and not (staged.exists() and staged.stat().st_size == size) and time.monotonic() < deadline:
                time.sleep(0.005)
            if not flips:
                with staged.open("r+b") as file:
                    file.write(b"\0")
                flips.append(digest)
            yield last

        return real(op, args, through() if op == "tree.receive" else chunks, **options)

    # The file must not be the last one, which is verified only after the last byte has arrived.
    bench.write({"zz.bin": noise(600_000)})
    monkeypatch.setattr(bench.host, "send", send)
    return flips


def split(chunk: bytes) -> list[bytes]:
    return [chunk[:-1], chunk[-1:]] if len(chunk) > 1 else [chunk]


def test_FI_13_a_slow_connection_is_not_treated_as_dead(tmp_path):
    """The deadline is for silence: each successful write restarts it, however long the whole sync takes."""

    class SlowWire(CuttingStarter):
        def start(self, argv):
            wire = super().start(argv)
            write = wire.write

            def slowly(data, timeout_s):
                for start in range(0, len(data), 4096):
                    time.sleep(0.008)
                    write(data[start : start + 4096], 2.0)

            wire.write = slowly
            return wire

    bench = Bench(tmp_path / "speech", install_payload(tmp_path / "workdir", byte_code=False), SlowWire(after=2**62))
    bench.write({f"f{number}.bin": noise(100_000, number) for number in range(15)})
    seen: list[int] = []
    began = time.monotonic()
    bench.sync(progress=lambda done, total: seen.append(done))
    assert time.monotonic() - began > 2.0 and seen == sorted(seen) and seen[-1] == 1_500_000
    assert contents(bench.tree) == contents(bench.root)
    bench.close()


def test_FI_15_a_file_that_changes_while_it_is_sent_is_sent_in_its_new_version(bench):
    bench.write({"zz.log": noise(2_000_000)})
    scan, tree = bench.scan(), bench.survey()
    changed: list[int] = []

    def change(done, total):
        if not changed and done > 0:
            changed.append(done)
            (bench.root / "zz.log").write_bytes(noise(1_500_000, 7))

    report = sync_project(bench.host, scan, tree, progress=change)
    assert changed and report.report.ok and contents(bench.tree) == contents(bench.root)


def test_FI_15_a_file_that_keeps_changing_is_named(bench):
    bench.write({"zz.log": noise(600_000)})
    count = iter(range(10**9))

    def change(done, total):
        (bench.root / "zz.log").write_bytes(noise(600_000, next(count)))

    with pytest.raises(SyncRefused, match="changes faster than it can be sent") as refused:
        bench.sync(progress=change)
    assert refused.value.where == "zz.log" and refused.value.exit_code == ExitCode.SYNC
    assert not contents(bench.tree)


def test_FI_16_a_file_that_vanishes_while_it_is_sent_is_named(bench):
    bench.write({"zz.log": noise(600_000)})

    def remove(done, total):
        (bench.root / "zz.log").unlink(missing_ok=True)

    with pytest.raises(SyncRefused, match="vanished") as refused:
        bench.sync(progress=remove)
    assert refused.value.where == "zz.log" and not contents(bench.tree)
    settle(bench)


@pytest.mark.ssh
def test_FI_04_a_sync_continues_after_kill_9_of_the_session(start_sshd, tmp_path):
    server = start_sshd()
    host = open_host(server.address(workdir=str(tmp_path / "workdir")))
    bench = Bench(tmp_path / "speech", install_payload(tmp_path / "workdir", byte_code=False))
    bench._host = host
    bench.write({f"f{number}.bin": noise(1_000_000, number) for number in range(20)})
    scan, tree = bench.scan(), bench.survey()
    hits: list[int] = []

    def kill(done, total):
        if not hits and done > 10_000_000:
            hits.append(server.kill_sessions())

    report = sync_project(host, scan, tree, progress=kill, wait=no_wait)
    assert hits and hits[0] > 0 and report.retries >= 1
    assert contents(bench.tree) == contents(bench.root)
    assert report.wire_bytes < 20_000_000 + 10_000_000 + 4_000_000
    host.close()


@pytest.mark.ssh
def test_FI_21_a_sync_needs_no_sftp(start_sshd, tmp_path):
    server = start_sshd(lines=["Subsystem sftp /nonexistent"])
    bench = Bench(tmp_path / "speech", install_payload(tmp_path / "workdir", byte_code=False))
    bench._host = open_host(server.address(workdir=str(tmp_path / "workdir")))
    bench.write({"a.py": "x = 1\n"})
    settle(bench)
    bench.close()
