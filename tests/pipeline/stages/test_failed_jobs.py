"""The stage train after a failed job: its output is downloaded and diagnosed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.records.find_run import find_note
from pipeline.stages.stage import Context
from pipeline.stages.train import Train
from remote.protocol.exits import ExitCode
from tests.pipeline.listeners import NoListener
from tests.pipeline.stages.failed_host import failing
from tests.pipeline.views import view_of


def test_the_output_of_a_failed_job_is_pulled_and_its_error_has_file_and_line(tmp_path: Path) -> None:
    output = b"progress\n" * 5000 + b"ValueError: Attempting to unscale FP16 gradients.\n"
    view = view_of(tmp_path, None)
    done = Train().run(Context(failing(output), view, NoListener()))
    name = find_note(view.records, None).run
    log = Path(".halfstep", "runs", name, "jobs", "1", "output.log")
    assert (tmp_path / log).read_bytes() == output
    assert [(finding.check, finding.where) for finding in done.report.findings] == [
        ("fp16-unscale", f"{log}, line 5001"),
        ("training", ""),
    ]


def test_a_secret_that_the_script_printed_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "swordfish-4711")
    view = view_of(tmp_path, None)
    view = replace(view, loaded=load_config("plain", tmp_path, ["secrets=[SERVICE_TOKEN]"]))
    output = b"Traceback (most recent call last):\nmylib.OddError: swordfish-4711 was refused\n"
    done = Train().run(Context(failing(output), view, NoListener()))
    assert "*** was refused" in done.report.findings[0].message
    assert "swordfish" not in str(done)


def test_a_job_whose_output_cannot_be_downloaded_has_still_failed(tmp_path: Path) -> None:
    host = failing(b"")
    del host.operations["log.read"]
    done = Train().run(Context(host, view_of(tmp_path, None), NoListener()))
    assert [finding.check for finding in done.report.findings] == ["output", "training"]
    assert done.exit_code is ExitCode.TRAINING


def test_a_failed_job_without_output_is_reported_as_failed(tmp_path: Path) -> None:
    host = failing(b"")
    host.streams["log.read"] = []
    done = Train().run(Context(host, view_of(tmp_path, None), NoListener()))
    assert [finding.check for finding in done.report.findings] == ["training"]
    assert done.exit_code is ExitCode.TRAINING


@pytest.mark.parametrize(
    ("error", "verb"),
    [
        (b"OddError: no\n", "logs"),
        (b"the end\n", "logs"),
        (b"ValueError: Attempting to unscale FP16 gradients.\n", "diagnose"),
    ],
)
def test_the_next_command_shows_more_than_the_diagnosis_that_was_printed(
    error: bytes, verb: str, tmp_path: Path
) -> None:
    view = view_of(tmp_path, None)
    done = Train().run(Context(failing(b"Traceback (most recent call last):\n" + error), view, NoListener()))
    [failed] = [one for one in done.report.findings if one.check == "training"]
    assert failed.hint == f"pipeline {verb} {find_note(view.records, None).run}"


def test_the_diagnosis_is_repeated_if_the_output_could_not_be_downloaded(tmp_path: Path) -> None:
    host = failing(b"")
    del host.operations["log.read"]
    view = view_of(tmp_path, None)
    done = Train().run(Context(host, view, NoListener()))
    assert {one.hint for one in done.report.findings} == {f"pipeline diagnose {find_note(view.records, None).run}"}
