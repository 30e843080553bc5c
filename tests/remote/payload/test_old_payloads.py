"""Old payloads on a host are removed after an update, unless a process still uses them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from remote.link import bundle
from remote.link.agent import AgentHost
from remote.link.local import local_host
from remote.operations.jobs import start_job
from remote.payload.agent.old_payloads import needed_payloads, remove_old_payloads
from remote.payload.processes.identity import descendants
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobSpec, Started
from remote.protocol.layout import ProjectLayout

DEADLINE_S = 60.0
LEFT_OUT = shutil.ignore_patterns("__pycache__", "training")
"""The built-in trainer, which no job of these tests runs, is not compiled for each version."""
PROJECT, RUN = "speech-00000000", "tiny-01234567"


@dataclass(frozen=True)
class Job:
    payload: str
    gate: Path
    result: Path
    started: Started


@pytest.fixture(autouse=True)
def _bundles_are_ours_again() -> Iterator[None]:
    yield
    bundle.payload_bundle.cache_clear()


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    return tmp_path / "work dir"


@pytest.fixture
def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], str]:
    """Make this laptop's halfstep another version, and return the hash of its payload."""

    def become(number: int) -> str:
        package = tmp_path / f"version-{number}" / "remote"
        for folder in bundle.FOLDERS:
            shutil.copytree(bundle.PACKAGE / folder, package / folder, ignore=LEFT_OUT)
        # A payload is needed while a process on this machine names its hash, so no two tests may have the same hash.
        (package / "payload/version.py").write_text(f"VERSION = {number}  # {tmp_path}\n")
        monkeypatch.setattr(bundle, "PACKAGE", package)
        bundle.payload_bundle.cache_clear()
        return bundle.payload_bundle(byte_code=True).sha256

    return become


def arrive(workdir: Path) -> AgentHost:
    """Return a host on which the payload of this version is installed."""
    host = local_host(str(workdir))
    host.ask("file.list", {"path": "nothing"})
    sha = bundle.payload_bundle(byte_code=True).sha256
    wait_until(lambda: any((workdir / "payload").glob(f"{sha}.*.zip")))
    return host


def leave(host: AgentHost) -> None:
    pid = host.greeting["pid"]
    host.close()
    wait_until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def hashes(workdir: Path) -> set[str]:
    return {path.name.split(".")[0] for path in (workdir / "payload").glob("*.pyz")}


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


def test_the_newest_other_payload_is_kept_and_older_ones_are_removed(
    workdir: Path, version: Callable[[int], str]
) -> None:
    shas = []
    for number in range(4):
        shas.append(version(number))
        leave(arrive(workdir))
        wait_until(lambda: hashes(workdir) == set(shas[-2:]))
    names = {path.name.split(".")[0] for path in (workdir / "payload").iterdir()}
    assert names == set(shas[-2:]), "byte code goes with its payload"


def test_an_agent_keeps_the_payload_that_it_was_started_with(workdir: Path, version: Callable[[int], str]) -> None:
    first = version(0)
    old = arrive(workdir)
    shas = []
    for number in (1, 2, 3):
        shas.append(version(number))
        leave(arrive(workdir))
        wait_until(lambda: hashes(workdir) == {first, *shas[-2:]})
    # Its module was not imported before, so it is loaded from the zip only now.
    assert old.ask("data.survey", {"project": PROJECT, "digest": "0" * 64})["path"] == ""
    leave(old)
    version(4)
    leave(arrive(workdir))
    wait_until(lambda: first not in hashes(workdir))


@pytest.fixture
def job(workdir: Path, tmp_path: Path, version: Callable[[int], str]) -> Iterator[Job]:
    """A job that was started by version 0 and waits at a gate."""
    first = version(0)
    host = arrive(workdir)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    spec = JobSpec(RUN, 1, "f" * 64, (sys.executable, "-c", f"open({str(gate)!r}).read()"), grace_s=5.0)
    answer = start_job(host, StartRequest(PROJECT, spec, "tiny", backend="setsid"))
    leave(host)
    assert answer.started is not None
    yield Job(first, gate, workdir / ProjectLayout(PROJECT).run(RUN).job(1).result, answer.started)
    for pid in (*trainer_of(answer.started), answer.started.child_pid, answer.started.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def trainer_of(started: Started) -> list[int]:
    """Return the process under the job's exit recorder."""
    return [process.pid for process in descendants(started.child_pid)]


def test_a_supervisor_keeps_the_payload_that_it_was_started_with(
    job: Job, workdir: Path, version: Callable[[int], str]
) -> None:
    shas = []
    for number in (1, 2, 3):
        shas.append(version(number))
        leave(arrive(workdir))
        wait_until(lambda: hashes(workdir) == {job.payload, *shas[-2:]})
    job.gate.write_bytes(b"on you go")
    wait_until(job.result.exists)
    assert json.loads(job.result.read_bytes())["exit"] == 0
    wait_until(lambda: not is_running(job.started.pid))
    version(4)
    leave(arrive(workdir))
    wait_until(lambda: job.payload not in hashes(workdir))


def test_no_payload_is_removed_while_a_supervisor_may_be_invisible(
    job: Job, workdir: Path, version: Callable[[int], str]
) -> None:
    os.kill(job.started.pid, signal.SIGKILL)
    wait_until(lambda: not is_running(job.started.pid))
    assert needed_payloads(str(workdir)) is None
    [trainer] = trainer_of(job.started)
    os.kill(trainer, signal.SIGKILL)
    wait_until(lambda: not is_running(job.started.child_pid))
    assert needed_payloads(str(workdir)) is not None


def test_files_that_are_no_payloads_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "payload"
    folder.mkdir()
    for name in ("notes.txt", "abc.pyz", f"{'a' * 64}.pyz.bak", ".hs-part-new"):
        (folder / name).write_text("")
    for number, digit in enumerate("bcd"):
        for ending in (".pyz", ".cpython-39.zip"):
            path = folder / (digit * 64 + ending)
            path.write_text("")
            os.utime(path, (number + 1, number + 1))
    (folder / ".hs-part-old").write_text("")
    os.utime(folder / ".hs-part-old", (1, 1))
    gone = remove_old_payloads(str(folder / f"{'b' * 64}.pyz"), str(tmp_path))
    assert sorted(gone) == sorted(["c" * 64 + ".pyz", "c" * 64 + ".cpython-39.zip"])
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [
            ".hs-part-new",
            "abc.pyz",
            f"{'a' * 64}.pyz.bak",
            "notes.txt",
            *(digit * 64 + ending for digit in "bd" for ending in (".pyz", ".cpython-39.zip")),
        ]
    )
