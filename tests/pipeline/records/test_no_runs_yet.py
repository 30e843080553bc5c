"""What a project without training runs answers, while the first run is being prepared and after it has ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.records.files import locked
from pipeline.records.find_run import find_note
from pipeline.records.layout import Records
from remote.errors import BadUsage

DOING = "run tiny on titan"


def answer_of(records: Records) -> BadUsage:
    with pytest.raises(BadUsage) as raised:
        find_note(records, None)
    return raised.value


def test_a_run_that_is_being_prepared_is_named(tmp_path: Path) -> None:
    records = Records(tmp_path)
    with locked(records.lock("titan", "tiny"), DOING):
        answer = answer_of(records)
    assert "no training runs yet, but one is being prepared: pid" in answer.message
    assert answer.message.endswith(DOING)
    assert answer.hint == "try again when its training has begun"


@pytest.mark.parametrize("content", ["", "{", json.dumps({"pid": 2**22 + 7, "doing": DOING})])
def test_a_process_that_has_ended_is_not_named(tmp_path: Path, content: str) -> None:
    records = Records(tmp_path)
    lock = records.lock("titan", "tiny")
    lock.parent.mkdir(parents=True)
    lock.write_text(content)
    answer = answer_of(records)
    assert answer.message == "this project has no training runs yet"
    assert answer.hint.startswith("pipeline run")
