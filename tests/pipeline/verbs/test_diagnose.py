"""`diagnose` prints the line of the log, and with --json everything in the catalog entry."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_note
from remote.protocol import hidden

LOG = "loading\nValueError: Attempting to unscale FP16 gradients.\nOddError: what now\n"


def test_without_a_run_the_output_of_the_last_failed_proof_is_diagnosed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    assert run(["diagnose"]) == 2
    for age, (name, line) in enumerate((("b.proof.log", "CUDA out of memory"), ("a.proof.log", LOG))):
        output = tmp_path / ".halfstep" / "state" / "titan" / name
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(f"{line}\n")
        os.utime(output, (age, age))
    capsys.readouterr()
    assert run(["diagnose", "--json"]) == 40
    one, *_ = json.loads(capsys.readouterr().out)["diagnoses"]
    assert (one["check"], one["log"]) == ("fp16-unscale", "../.halfstep/state/titan/a.proof.log")


@pytest.mark.parametrize(("started", "name"), [(100.0, "r-1"), (300.0, "r-2")])
def test_the_newer_one_of_the_last_run_and_the_last_failed_proof_is_diagnosed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: float, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "configs").mkdir()
    monkeypatch.chdir(tmp_path)
    records = Records(tmp_path)
    write_note(records, RunNote(name, "local", "c", "p-1", 50.0, name=name, started_unix=started))
    output = records.proof_output("titan", "c")
    output.parent.mkdir(parents=True)
    output.write_text(LOG)
    os.utime(output, (200, 200))
    run(["diagnose", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert bool(answer.get("diagnoses")) is (started < 200), answer


@pytest.mark.parametrize("what", ["train.log", "-"])
def test_the_json_object_has_the_wrong_advice_and_the_cures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.log").write_text(LOG)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LOG.encode())))
    assert run(["diagnose", what, "--json"]) == 40
    answer = json.loads(capsys.readouterr().out)
    name = {"-": "standard input"}.get(what, what)
    assert answer["findings"][0]["where"] == f"{name}, line 2"
    [one] = answer["diagnoses"]
    assert (one["check"], one["log"], one["line"], one["rank"], one["count"]) == ("fp16-unscale", name, 2, None, 1)
    assert "max_grad_norm" in one["folk_wrong"]
    assert "fixer:trainable-fp32" in one["cures"]
    assert one["context"][-1] == "ValueError: Attempting to unscale FP16 gradients."


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-8"])
def test_a_log_that_powershell_wrote_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], encoding: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.log").write_bytes(LOG.replace("\n", "\r\n").encode(encoding))
    assert run(["diagnose", "train.log", "--json"]) == 40
    [one] = json.loads(capsys.readouterr().out)["diagnoses"]
    assert (one["check"], one["line"]) == ("fp16-unscale", 2)


def test_a_file_that_cannot_be_read_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.txt").write_text("x")
    monkeypatch.chdir(tmp_path)

    def refuse(file: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pipeline.verbs.diagnose.tail_of", refuse)
    assert run(["diagnose", "log.txt"]) == 2
    assert "log.txt cannot be read: Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize(("what", "name"), [("train.log", "train.log"), ("-", "standard input")])
def test_a_log_without_a_known_error_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], what: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.log").write_text("step 1\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"step 1\n")))
    assert run(["diagnose", what]) == 0
    assert capsys.readouterr().out.strip() == f"no known error in {name}"


TOKEN = "hf_" + "Aa1" * 11


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize(
    "log",
    [
        f"token {TOKEN}\nValueError: Attempting to unscale FP16 gradients.\nheaders {TOKEN}\n",
        f"Traceback (most recent call last):\nOddError: 401 for key sk-{'x1' * 20} of {TOKEN}\n",
    ],
    ids=["beside the error", "in an unrecognised error"],
)
def test_SE_17_no_token_of_a_log_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], log: str, as_json: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.log").write_text(log)
    assert run(["diagnose", "train.log", *(["--json"] if as_json else [])]) == 40
    output = "".join(capsys.readouterr())
    assert "Error" in output and TOKEN not in output and "x1x1" not in output


@pytest.mark.parametrize("what", ["train.log", "-"])
@pytest.mark.parametrize("file", ["configs/c.yaml", "configs/hosts/h.yaml"])
def test_SE_18_the_secrets_of_the_project_s_configs_are_masked_in_a_diagnosed_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], what: str, file: str
) -> None:
    monkeypatch.setattr(hidden, "_values", set())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", "correct-horse")
    Path(file).parent.mkdir(parents=True)
    Path(file).write_text("secrets: [MY_KEY]\n")
    Path("configs/broken.yaml").write_text("secrets: [\n")
    log = b"Traceback (most recent call last):\nOddError: login with correct-horse failed\n"
    Path("train.log").write_bytes(log)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(log)))
    run(["diagnose", what])
    printed = capsys.readouterr().out
    assert "correct-horse" not in printed and "login with *** failed" in printed
