"""A record that came with the project does not take the place of the user's own runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.records.find_run import find_note
from pipeline.records.layout import Records
from pipeline.records.runs import write_start
from tests.pipeline.hosts.cloned_notes import brought, note


@pytest.mark.parametrize("planted", ["plain", "plain-0123"])
def test_SE_a_foreign_record_with_a_name_that_fits_an_own_run_is_not_found(tmp_path: Path, planted: str) -> None:
    records = Records(tmp_path)
    brought(records, planted, replace(note(planted), name=planted))
    assert not find_note(records, planted).own, "the only run with this name"
    for own in ("plain-00000000", "plain-0123abcd"):
        write_start(records, note(own))
    found = find_note(records, planted)
    assert (found.name, found.own) == ("plain-0123abcd", True)


def test_SE_push_does_not_take_the_adapter_of_a_foreign_record_for_the_newest_run_of_a_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    records = Records(tmp_path)
    adapter = brought(records, "plain", replace(note("plain"), name="plain")) / "adapter"
    adapter.mkdir()
    (adapter / "adapter_model.safetensors").write_bytes(b"theirs")
    write_start(records, note())
    assert run(["push", "plain", "--json"]) != 0
    assert "the adapter of plain-0123abcd is not on this machine" in "".join(capsys.readouterr())
