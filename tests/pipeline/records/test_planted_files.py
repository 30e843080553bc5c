"""SE-12: files that a cloned project put in place of records redirect no write."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from fixers.plans.plan_cache import PlanCache
from pipeline.actions import adapter_job
from pipeline.records.files import locked, write_atomic
from pipeline.records.kept_cures import read_cures
from pipeline.records.layout import Records
from pipeline.records.run_inputs import read_inputs
from pipeline.records.runs import read_note
from pipeline.records.stage_checkpoints import read_checkpoints
from pipeline.report.evidence import Evidence, read_evidence, write_evidence
from pipeline.report.model import CureRow
from pipeline.report.saved import read_evaluation, read_report
from remote.errors import BadUsage, Busy
from remote.project.digests import MAX_JSON, MAX_VALUES, parse_record, read_digest_cache
from remote.protocol.values import dumps


@pytest.mark.parametrize("place", ["state/local/train.lock", "runs/plain-0123abcd/pull.lock", "runs.lock"])
@pytest.mark.parametrize("sign", [True, False])
def test_SE_12_a_lock_that_is_a_link_is_refused_and_its_target_unchanged(
    tmp_path: Path, place: str, sign: bool
) -> None:
    victim, lock = tmp_path / ".bashrc", tmp_path / "project/.halfstep" / place
    victim.write_text("alias ll='ls -l'")
    lock.parent.mkdir(parents=True)
    lock.symlink_to(victim)
    with pytest.raises(BadUsage, match="is a symbolic link") as caught, locked(lock, "run", sign=sign):
        pass
    assert victim.read_text() == "alias ll='ls -l'" and caught.value.hint == f"rm {lock}"


def test_SE_12_a_lock_that_is_a_link_to_nothing_creates_no_file(tmp_path: Path) -> None:
    (tmp_path / "l.lock").symlink_to(tmp_path / "authorized_keys")
    with pytest.raises(BadUsage, match="is a symbolic link"), locked(tmp_path / "l.lock", "run"):
        pass
    assert not (tmp_path / "authorized_keys").exists()


def test_SE_12_a_link_that_replaces_the_lock_after_the_check_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "l.lock").symlink_to(victim)
    monkeypatch.setattr("remote.project.records_folder.refuse_link", lambda path: None)
    with pytest.raises(BadUsage), locked(tmp_path / "l.lock", "run"):
        pass
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_SE_12_a_lock_that_is_a_fifo_or_a_folder_is_refused_without_blocking(tmp_path: Path, make: object) -> None:
    make(tmp_path / "l.lock")  # type: ignore[operator]
    with pytest.raises(BadUsage, match="is not a regular file"), locked(tmp_path / "l.lock", "run"):
        pass


def test_a_lock_file_is_signed_again_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "l.lock"
    for _ in range(2):
        with locked(path, "run"):
            assert path.read_text() == f'{{"pid": {os.getpid()}, "doing": "run"}}'
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("record", ["checkpoints", "cures", "evidence", "lock"])
def test_SE_12_the_records_of_a_host_are_not_written_through_a_link(tmp_path: Path, record: str) -> None:
    records, victim = Records(tmp_path / "project"), tmp_path / "victim"
    victim.mkdir()
    (records.folder / "state").mkdir(parents=True)
    (records.folder / "state/local").symlink_to(victim)
    with pytest.raises(BadUsage, match="is a symbolic link"):
        write_atomic(getattr(records, record)("local", "train"), b"{}")
    assert list(victim.iterdir()) == []


READERS: dict[str, Callable[[Path], object]] = {
    "cures.json": lambda path: read_cures(path, {}),
    "run.json": lambda path: read_note(path.parent),
    "inputs.json": lambda path: read_inputs(path.parent),
    "checkpoints.json": lambda path: read_checkpoints(path).stages,
    "evidence.json": read_evidence,
    "report.json": lambda path: read_report(path.parent),
    "evaluation.json": lambda path: read_evaluation(path.parent),
    "scan.json": lambda path: read_digest_cache(path.parent),
    "plans.json": lambda path: PlanCache.of(path.parents[2], path.stem).rows,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("planted", ["/dev/zero", "fifo", "large", "deep", "deeper", "wide", "folder", "link"])
def test_SE_12_a_planted_record_without_end_or_bottom_counts_as_missing(
    tmp_path: Path, name: str, planted: str
) -> None:
    path = tmp_path / ".halfstep" / "planned" / name
    path.parent.mkdir(parents=True)
    victim = tmp_path / "victim.json"
    victim.write_text('{"host": "mine"}')
    if planted == "fifo":
        os.mkfifo(path)
    elif planted == "folder":
        path.mkdir()
    elif planted == "large":
        with path.open("wb") as file:
            file.truncate(MAX_JSON + 1)
    elif planted == "wide":
        path.write_text('{"run": [' + "[]," * MAX_VALUES + "[]]}")
    elif planted.startswith("deep"):
        levels = 400 if planted == "deep" else 200_000
        path.write_text('{"run": ' * levels + "1" + "}" * levels)
    else:
        path.symlink_to(victim if planted == "link" else planted)
    missing = tmp_path / "missing" / ".halfstep" / "planned" / name
    assert READERS[name](path) == READERS[name](missing)


@pytest.mark.parametrize("name", READERS)
def test_SE_12_a_planted_record_of_many_values_takes_little_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / ".halfstep" / "planned" / name
    path.parent.mkdir(parents=True)
    path.write_text('{"version": 4, "rows": [' + "[]," * MAX_VALUES + "[]]}")
    tracemalloc.start()
    try:
        READERS[name](path)
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("is_cache", [False, True])
def test_SE_12_the_number_of_values_of_a_record_is_limited(is_cache: bool) -> None:
    assert parse_record(b'{"rows": {"a": [1, 2]}}', is_cache=is_cache) == {"rows": {"a": [1, 2]}}
    with pytest.raises(ValueError, match="more than 2000000 values"):
        parse_record(b"[" + b"1," * MAX_VALUES + b"1]", is_cache=is_cache)


@pytest.mark.parametrize(
    "holder",
    [b"[" * 100_000, b'{"pid": 1e400}', b'{"pid": 99999999999999999999}', b'{"pid": [1]}', b"\xff", b" " * 2**26],
    ids=["deep", "infinite", "huge", "list", "bytes", "long"],
)
def test_SE_12_a_lock_file_with_planted_content_names_no_holder(tmp_path: Path, holder: bytes) -> None:
    path = tmp_path / "l.lock"
    with locked(path, "run", sign=False):
        path.write_bytes(holder)
        tracemalloc.start()
        try:
            with pytest.raises(Busy, match="its pid is unknown"), locked(path, "run"):
                pass
            assert tracemalloc.get_traced_memory()[1] < 2**20
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("planted", ["file", "folder"])
def test_SE_12_a_link_in_place_of_the_output_of_a_proof_is_not_read(tmp_path: Path, planted: str) -> None:
    state, home = tmp_path / "project/.halfstep/state", tmp_path / "home"
    home.mkdir()
    (home / "a.proof.log").write_text("aws_secret = victim")
    state.mkdir(parents=True)
    if planted == "file":
        (state / "x").mkdir()
        (state / "x/a.proof.log").symlink_to(home / "a.proof.log")
    else:
        (state / "x").symlink_to(home)
    assert Records(tmp_path / "project").newest_proof_output(0.0) is None


def test_SE_12_a_schema_that_is_a_link_to_a_large_file_is_replaced_and_not_read(tmp_path: Path) -> None:
    large, records = tmp_path / "large", Records(tmp_path / "project")
    with large.open("wb") as file:
        file.truncate(2**34)
    records.prepare()
    copy = next((tmp_path / "project/.halfstep/schemas").iterdir())
    data = copy.read_bytes()
    copy.unlink()
    copy.symlink_to(large)
    records.prepare()
    assert not copy.is_symlink() and copy.read_bytes() == data and large.stat().st_size == 2**34


@pytest.mark.parametrize("own", [True, False])
def test_SE_12_evidence_of_a_cloned_project_is_in_no_report(tmp_path: Path, own: bool) -> None:
    path, evidence = tmp_path / "a.evidence.json", Evidence(cures=(CureRow("oom", "cause", "done"),))
    if own:
        write_evidence(path, evidence)
    else:
        path.write_bytes(dumps(evidence))
    assert read_evidence(path) == (evidence if own else Evidence())


@pytest.mark.parametrize("name", ["report.html", "run.json"])
def test_a_folder_in_place_of_a_file_is_named_and_stays_as_it_is(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "x.tfevents.1").write_bytes(b"")
    with pytest.raises(BadUsage, match=f"{name} is a folder, but a file of that name is needed") as caught:
        write_atomic(tmp_path / name, b"{}")
    assert caught.value.hint == f"ls -ld {tmp_path / name}"
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "x.tfevents.1").exists()


def test_SE_12_a_link_in_place_of_an_evaluation_is_replaced_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, trained = tmp_path / "evaluated", tmp_path / "trained"
    made.mkdir()
    trained.mkdir()
    (made / "evaluation.json").write_text("{}")
    (trained / "evaluation.json").symlink_to("/dev/zero")
    monkeypatch.setattr(adapter_job, "is_reported", lambda folder: True)
    monkeypatch.setattr(adapter_job, "render_saved_report", lambda folder: None)
    adapter_job._add_to_report(cast("adapter_job.AdapterJob", SimpleNamespace(folder=made, trained=trained)))
    assert not (trained / "evaluation.json").is_symlink()
    assert (trained / "evaluation.json").read_text() == "{}"
