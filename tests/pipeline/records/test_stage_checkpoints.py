"""The file of stage checkpoints is read completely or rejected."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
from pathlib import Path

import pytest

from pipeline.records import files
from pipeline.records.files import locked
from pipeline.records.signed import write_in_place
from pipeline.records.stage_checkpoints import (
    VERSION,
    StageCheckpoints,
    checkpoint_now,
    read_checkpoints,
    write_checkpoints,
)
from remote.errors import Busy
from tests.lab.wait import PATIENCE_S


def some_claims() -> StageCheckpoints:
    claims = StageCheckpoints()
    for name in ("sync", "environment", "fix"):
        claims = claims.with_checkpoint(checkpoint_now(name, f"print-of-{name}", {"files": "abc"}, seconds=1.5))
    return claims


def test_stage_checkpoints_are_read_as_they_were_written(tmp_path: Path) -> None:
    path, claims = tmp_path / "state.json", some_claims().with_failure("verify", "print", "no card")
    write_checkpoints(path, claims)
    assert read_checkpoints(path) == claims


def test_a_missing_record_has_no_checkpoints(tmp_path: Path) -> None:
    assert read_checkpoints(tmp_path / "nothing.json") == StageCheckpoints()


def test_FI_26_a_truncated_record_has_no_checkpoints_and_reports_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_checkpoints(path, some_claims())
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        claims = read_checkpoints(path)
        assert claims.stages == {}
        assert claims.problem


def test_FI_27_a_record_with_a_flipped_byte_is_rejected_or_read_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_checkpoints(path, some_claims())
    whole = path.read_bytes()
    honest = read_checkpoints(path).stages
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x04]) + whole[at + 1 :])
        assert read_checkpoints(path).stages in ({}, honest), f"byte {at} made another claim"


@pytest.mark.parametrize("version", [0, VERSION + 1, 99, "1"])
def test_FI_28_a_record_of_another_version_is_rejected(tmp_path: Path, version: object) -> None:
    path = tmp_path / "state.json"
    write_in_place(path, {"version": version, "claims": {}, "failures": {}})
    claims = read_checkpoints(path)
    assert claims.stages == {}
    assert "version" in claims.problem


def test_forgetting_one_stage_keeps_the_others() -> None:
    assert set(some_claims().without("fix", "print-of-fix").stages) == {"sync", "environment"}
    claims = some_claims()
    assert claims.without("fix", "print of other inputs") == claims


def hold(path: Path, ready: object) -> None:
    with locked(path, "holding"):
        ready.set()  # type: ignore[attr-defined]
        signal.pause()


@pytest.fixture
def holder(tmp_path: Path) -> object:
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=hold, args=(tmp_path / "l.lock", ready))
    process.start()
    assert ready.wait(PATIENCE_S)
    yield process
    if process.is_alive():
        os.kill(process.pid or 0, signal.SIGKILL)
    process.join()


def test_FI_30_a_held_lock_names_its_holder_even_when_that_is_stopped(tmp_path: Path, holder: object) -> None:
    os.kill(holder.pid, signal.SIGSTOP)  # type: ignore[attr-defined]
    with pytest.raises(Busy, match=f"pid {holder.pid}, holding"), locked(tmp_path / "l.lock", "me"):  # type: ignore[attr-defined]
        pass


@pytest.mark.parametrize("left", ["", '{"pid": PID, "doing": "run of yesterday"}'])
@pytest.mark.parametrize("tries", [1, 4])
def test_a_process_that_has_just_got_the_lock_is_named_as_soon_as_it_signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str, tries: int
) -> None:
    path, waits = tmp_path / "l.lock", []
    gone = subprocess.Popen(["true"])
    gone.wait()
    path.write_text(left.replace("PID", str(gone.pid)))
    with locked(path, "run", sign=False) as lock:

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == tries:
                lock.sign("plain-0011aabb")

        monkeypatch.setattr(files.time, "sleep", wait)
        with pytest.raises(Busy, match=f"pid {os.getpid()}, run") as refused, locked(path, "me"):
            pass
    assert (len(waits), refused.value.hint) == (tries, "pipeline attach plain-0011aabb")


def test_a_lock_without_a_signature_is_held_and_leaves_its_file_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.time, "sleep", lambda seconds: None)
    path = tmp_path / "l.lock"
    gone = subprocess.Popen(["true"])
    gone.wait()
    path.write_text(json.dumps({"pid": gone.pid, "doing": "run of yesterday"}))
    before = path.stat().st_mtime_ns
    with locked(path, "run", sign=False) as lock:
        with pytest.raises(Busy, match="its pid is unknown"), locked(path, "me"):
            pass
        assert path.stat().st_mtime_ns == before
        lock.sign()
        with pytest.raises(Busy, match=f"pid {os.getpid()}, run"), locked(path, "me"):
            pass


def test_FI_29_a_killed_process_releases_its_lock_at_once(tmp_path: Path, holder: object) -> None:
    os.kill(holder.pid, signal.SIGKILL)  # type: ignore[attr-defined]
    holder.join()  # type: ignore[attr-defined]
    with locked(tmp_path / "l.lock", "me"):
        pass


def test_the_hint_of_a_held_lock_does_not_lead_to_an_older_run(tmp_path: Path) -> None:
    """While the first stages run, the other process has no run yet, and `status` would show an older one."""
    with locked(tmp_path / "l.lock", "one"), pytest.raises(Busy) as busy, locked(tmp_path / "l.lock", "two"):
        pass
    assert busy.value.hint == "run the command again when that process has ended"


@pytest.mark.parametrize(
    ("run", "hint"),
    [
        ("plain-0011aabb", "pipeline attach plain-0011aabb"),
        ("", "run the command again when that process has ended"),
        ("x; rm -rf .", "run the command again when that process has ended"),
    ],
)
def test_the_hint_of_a_held_lock_attaches_to_the_run_that_its_holder_follows(
    tmp_path: Path, run: str, hint: str
) -> None:
    with locked(tmp_path / "l.lock", "one") as lock:
        lock.sign(run)
        with pytest.raises(Busy, match=f"pid {os.getpid()}, one") as busy, locked(tmp_path / "l.lock", "two"):
            pass
    assert busy.value.hint == hint
