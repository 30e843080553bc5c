"""Records that decide what is done are used only if this user wrote them at their own path."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.diagnosis.cures import Cure
from pipeline.records.kept_cures import read_cures, write_cures
from pipeline.records.layout import Records
from pipeline.records.signed import SIGNATURE
from pipeline.records.stage_checkpoints import (
    StageCheckpoints,
    checkpoint_now,
    read_checkpoints,
    write_checkpoints,
)
from pipeline.report.evidence import Evidence, read_evidence, write_evidence
from pipeline.report.model import CureRow
from remote.project.user_folder import KEY, KEY_BYTES, is_signed, sign, user_file

PROVED = StageCheckpoints().with_checkpoint(checkpoint_now("verify", "f", {}, seconds=1.0))
RETRY = Cure("retry", "start the job again")
RECORDS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "checkpoints": (lambda path: write_checkpoints(path, PROVED), lambda path: read_checkpoints(path).stages),
    "cures": (lambda path: write_cures(path, {}, (RETRY,)), lambda path: read_cures(path, {})),
    "evidence": (
        lambda path: write_evidence(path, Evidence(cures=(CureRow("oom", "cause", "done"),))),
        lambda path: read_evidence(path) != Evidence(),
    ),
}


def without_signature(path: Path) -> None:
    record = json.loads(path.read_bytes())
    del record[SIGNATURE]
    path.write_text(json.dumps(record))


def with_another_body(path: Path) -> None:
    record = json.loads(path.read_bytes())
    path.write_text(json.dumps(record | {"more": 1}))


def by_another_user(path: Path) -> None:
    user_file(KEY).write_bytes(b"k" * KEY_BYTES)


FOREIGN = {
    "unsigned": without_signature,
    "changed": with_another_body,
    "another user": by_another_user,
    "no key": lambda path: user_file(KEY).unlink(),
    "an incomplete key": lambda path: user_file(KEY).write_bytes(b""),
}


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    def write(name: str) -> Path:
        path: Path = getattr(Records(tmp_path / "project"), name)("titan", "paper")
        RECORDS[name][0](path)
        assert RECORDS[name][1](path), "the user's own record is used"
        return path

    return write


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("foreign", FOREIGN)
def test_SE_12_a_record_that_this_user_did_not_write_counts_as_missing(
    written: Callable[[str], Path], name: str, foreign: str
) -> None:
    path = written(name)
    FOREIGN[foreign](path)
    assert not RECORDS[name][1](path)


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize(
    "place", [("project", "other-host", "paper"), ("project", "titan", "other"), ("clone", "titan", "paper")]
)
def test_SE_12_a_copy_of_a_record_for_another_host_config_or_project_counts_as_missing(
    tmp_path: Path, written: Callable[[str], Path], name: str, place: tuple[str, str, str]
) -> None:
    project, host, config = place
    copy: Path = getattr(Records(tmp_path / project), name)(host, config)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(written(name), copy)
    assert not RECORDS[name][1](copy)


def test_SE_12_evidence_does_not_pass_for_cures_or_checkpoints(tmp_path: Path, written: Callable[[str], Path]) -> None:
    path = written("evidence")
    for other in ("checkpoints", "cures"):
        copy: Path = getattr(Records(tmp_path / "project"), other)("titan", "paper")
        shutil.copy(path, copy)
        assert not RECORDS[other][1](copy)


def test_SE_12_a_checkpoint_with_the_checksum_of_earlier_versions_is_reported_and_not_used(tmp_path: Path) -> None:
    path = tmp_path / "paper.json"
    path.write_text('{"version": 1, "claims": {}, "sha256": "44136f", "failures": {}}')
    assert "an earlier version of halfstep; every stage is checked again" in read_checkpoints(path).problem


def test_without_a_usable_key_the_problem_names_the_key_and_the_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    path = tmp_path / "paper.json"
    write_checkpoints(path, PROVED)
    found = read_checkpoints(path)
    assert found.stages == {} and f"could not be signed ({user_file(KEY)}: Not a directory)" in found.problem


@pytest.mark.parametrize("left", ["missing", "empty", "short"])
def test_SE_12_an_incomplete_key_is_replaced_because_it_could_be_guessed(left: str) -> None:
    path = user_file(KEY)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if left != "missing":
        path.write_bytes(b"" if left == "empty" else b"k" * (KEY_BYTES - 1))
    signature = sign(b"data")
    assert len(path.read_bytes()) == KEY_BYTES and is_signed(b"data", signature)
    assert [other.name for other in path.parent.iterdir() if KEY in other.name] == [KEY]
    assert sign(b"data") == signature


def test_SE_the_key_is_readable_for_the_user_only_also_if_it_was_not() -> None:
    signature, path = sign(b"data"), user_file(KEY)
    assert path.stat().st_mode & 0o777 == 0o600
    os.chmod(path, 0o664)
    assert is_signed(b"data", signature) and path.stat().st_mode & 0o777 == 0o600
