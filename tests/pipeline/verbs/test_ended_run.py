"""A failed run on a reachable host: every verb reports it with its own name and exit code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.hosts.open_run import open_run
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, read_note, write_note
from pipeline.verbs.status import describe_rewritten
from remote.errors import Interrupted
from remote.payload.checkpoints import published
from remote.protocol import hidden
from remote.protocol.job_requests import RunRecord
from remote.protocol.jobs import JobResult, Started
from remote.protocol.layout import ProjectLayout
from remote.protocol.values import dumps
from tests.contracts.project_modules import ROOT
from tests.lab.payload import install_payload
from tests.remote.jobs.test_checkpoints import save
from tests.remote.pull.event_records import point

RUN = "plain-0123abcd"
Types = Callable[..., tuple[int, dict[str, object]]]


@pytest.fixture
def types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Types:
    """Runs verbs in a project whose one run, on `local`, was stopped before its first checkpoint."""
    monkeypatch.chdir(tmp_path)
    workdir = install_payload(tmp_path / "work")
    write_note(Records(tmp_path), RunNote(RUN, "here", "plain", "p-1", 1.0, {"host": "local", "workdir": str(workdir)}))
    layout = ProjectLayout("p-1").run(RUN)
    job = workdir / layout.job(1).root
    job.mkdir(parents=True)
    (workdir / layout.record).write_bytes(dumps(RunRecord(RUN, "plain", "f")))
    (workdir / layout.job(1).supervisor).write_bytes(dumps(Started(1, 1, "an older boot")))
    (workdir / layout.job(1).result).write_bytes(dumps(JobResult(143, stopped=True)))

    def typed(*words: str) -> tuple[int, dict[str, object]]:
        code = run([*words, "--json"])
        *scalars, answer = map(json.loads, capsys.readouterr().out.splitlines())
        return code, {**answer, **({"scalars": scalars} if words[0] == "tail" else {})}

    return typed


@pytest.mark.parametrize("verb", ["wait", "attach"])
def test_a_job_that_left_no_checkpoint_exits_40_under_the_verb_that_was_typed(types: Types, verb: str) -> None:
    code, answer = types(verb)
    assert (code, answer["command"], answer["run"]) == (40, verb, RUN)
    [finding] = answer["findings"]
    assert (finding["check"], "left no checkpoint" in finding["message"]) == ("stopped", True)
    assert finding["severity"] == "warning", "a job that was stopped on request has not failed"


def test_status_exits_with_0_and_reports_the_failure(types: Types) -> None:
    code, answer = types("status")
    assert (code, answer["ok"], answer["job"]["state"]) == (0, True, "stopped")
    assert [(finding["check"], finding["severity"]) for finding in answer["findings"]] == [("stopped", "warning")]


def test_status_names_the_files_that_fixers_changed_on_the_host(types: Types, tmp_path: Path) -> None:
    assert "rewritten" not in types("status")[1]
    note = read_note(Records(tmp_path).folder_named(RUN))
    assert note is not None
    write_note(Records(tmp_path), replace(note, rewritten=("train.py",)))
    assert types("status")[1]["rewritten"] == ["train.py"]
    assert describe_rewritten(note) == ()
    [line] = describe_rewritten(replace(note, rewritten=("a.py", "b.py", "c.py", "d.py", "e.py")))
    assert "a.py, b.py, c.py and 2 more" in line
    assert line.endswith("pipeline fix --host here --config plain --diff")


def test_missing_weights_are_an_error_if_weights_were_requested(types: Types, tmp_path: Path) -> None:
    (tmp_path / "work" / ProjectLayout("p-1").run(RUN).job(1).output).touch()
    assert types("pull")[0] == 0
    code, answer = types("pull", "--weights")
    assert (code, [finding["check"] for finding in answer["findings"]]) == (50, ["adapter-missing"])
    assert answer["findings"][0]["hint"] == f"pipeline logs {RUN}", "no advice to train again"


def test_weights_without_an_adapter_are_named_with_the_command_that_downloads_them(
    types: Types, tmp_path: Path
) -> None:
    saved = tmp_path / "work" / ProjectLayout("p-1").run(RUN).code / "checkpoints" / "last.pt"
    saved.parent.mkdir(parents=True)
    saved.write_bytes(b"all weights")
    (tmp_path / "work" / ProjectLayout("p-1").run(RUN).job(1).output).touch()
    code, answer = types("pull", "--weights")
    [finding] = answer["findings"]
    folder = Records(tmp_path).run(RUN, "here") / "own-weights"
    command = f"mkdir {folder} && cp -r {saved} {folder}"
    assert (code, finding["check"], finding["hint"]) == (50, "adapter-missing", command)
    subprocess.run(["sh", "-c", command], check=True)
    assert [path.name for path in folder.iterdir()] == ["last.pt"]
    assert str(saved) in finding["message"]


@pytest.mark.parametrize("broken", [False, True])
def test_a_stopped_run_has_the_adapter_of_its_newest_verified_checkpoint(
    types: Types, tmp_path: Path, broken: bool
) -> None:
    run_root = tmp_path / "work" / ProjectLayout("p-1").run(RUN).root
    (run_root / "jobs" / "1" / "output.log").touch()
    for step in (10, 20):
        published.publish(str(save(run_root / "code" / "out", step)))
    if broken:
        (run_root / "code" / "out" / "checkpoint-20" / "optimizer.pt").write_bytes(b"")
    step = 10 if broken else 20
    code, answer = types("pull", "--weights")
    [finding] = answer["findings"]
    assert (code, finding["check"], finding["severity"]) == (0, "adapter-unfinished", "warning")
    assert f"step {step} (code/out/checkpoint-{step})" in finding["message"]
    resume = (
        f"pipeline run --host here --config plain --resume {RUN}"  # without --resume, changed files start a new run
    )
    assert finding["hint"] == resume
    assert {types(verb)[1]["findings"][0]["hint"] for verb in ("status", "wait")} == {resume}
    adapter = str(tmp_path / ".halfstep" / "runs" / RUN / "adapter")
    assert adapter in (tmp_path / ".halfstep" / "runs" / RUN / "report.html").read_text(), "the page names the adapter"
    adapter = Path(answer["artifacts"]["adapter"])
    assert sorted(path.name for path in adapter.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]


@pytest.mark.parametrize("verb", [("logs",), ("logs", "-f"), ("diagnose",), ("tail",)])
def test_a_run_that_its_host_has_no_longer_is_shown_from_local_data(
    types: Types, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    shutil.rmtree(tmp_path / "work" / ProjectLayout("p-1").run(RUN).root)
    home = Records(tmp_path).run(RUN, "here")
    (home / "jobs" / "1").mkdir(parents=True)
    (home / "jobs" / "1" / "output.log").write_text("step 1\n")
    (home / "tensorboard").mkdir()
    (home / "tensorboard" / "events.out.tfevents.1").write_bytes(point(1, 2.5))
    code, answer = types(*verb)
    [finding] = answer["findings"]
    assert (code, finding["hint"]) == (41, "pipeline run --host here --config plain")
    assert f"here has no run {RUN} any more" in finding["message"]
    came = {"logs": ("lines", ["step 1"]), "diagnose": ("diagnoses", []), "tail": ("scalars", 1)}[verb[0]]
    assert came[1] == (len(answer[came[0]]) if verb[0] == "tail" else answer[came[0]])


@pytest.mark.parametrize("verb", ["logs", "diagnose", "tail"])
def test_a_run_that_exists_nowhere_is_an_error_with_a_hint(types: Types, tmp_path: Path, verb: str) -> None:
    shutil.rmtree(tmp_path / "work" / ProjectLayout("p-1").run(RUN).root)
    code, answer = types(verb)
    [finding] = answer["findings"]
    assert (code, finding["hint"]) == (41, "pipeline run --host here --config plain")


def test_the_hint_of_a_run_is_the_command_that_started_it(types: Types, tmp_path: Path) -> None:
    note = read_note(Records(tmp_path).run(RUN, "here"))
    assert note is not None
    words = ("--host", "here", "--config", "/elsewhere/plain.yaml", "--set", 'env.N="3"')
    write_note(Records(tmp_path), replace(note, given=words))
    [finding] = types("status")[1]["findings"]
    assert finding["hint"] == "pipeline run --host here --config /elsewhere/plain.yaml --set 'env.N=\"3\"'"


@pytest.mark.parametrize(("tag", "checks"), [("los", []), ("accuracy", ["no-scalars"])])
def test_an_unknown_tag_is_reported_with_the_existing_tags(
    types: Types, tmp_path: Path, tag: str, checks: list[str]
) -> None:
    curves = tmp_path / "work" / ProjectLayout("p-1").run(RUN).root / "tensorboard"
    curves.mkdir()
    (curves / "events.out.tfevents.1").write_bytes(point(1, 2.5))
    code, answer = types("tail", "--tag", tag)
    assert (code, [finding["check"] for finding in answer["findings"]]) == (0, checks)
    assert all("its tags: loss" in finding["message"] for finding in answer["findings"])


def test_tail_new_shows_no_step_from_before_the_command_although_none_was_ever_pulled(
    types: Types, tmp_path: Path
) -> None:
    curves = tmp_path / "work" / ProjectLayout("p-1").run(RUN).root / "tensorboard"
    curves.mkdir()
    later = time.time() + 3600.0
    (curves / "events.out.tfevents.1").write_bytes(point(1, 2.5) + point(2, 1.5, wall_time=later))
    assert types("tail", "--new")[1]["scalars"] == [{"step": 2, "tag": "loss", "value": 1.5}]
    assert [row["step"] for row in types("tail")[1]["scalars"]] == [1, 2]


def test_ctrl_c_in_a_verb_about_a_run_names_the_run(types: Types, tmp_path: Path) -> None:
    with pytest.raises(Interrupted) as caught, open_run(RUN, tmp_path):
        raise KeyboardInterrupt
    assert caught.value.about == {"host": "here", "config": "plain", "run": RUN}


ENDINGS = [
    (JobResult(143, stopped=True), "the job was stopped on request"),
    (JobResult(143, preempted=True), "the job was preempted; its checkpoint is kept"),
    (JobResult(143, signal=15, reason="ended by signal 15 (SIGTERM)"), "the job failed: ended by signal 15 (SIGTERM)"),
    (JobResult(1, reason="its exit status is unknown"), "the job failed: its exit status is unknown"),
    (JobResult(1), "the job failed: exit status 1"),
]


@pytest.mark.parametrize(("result", "ending"), ENDINGS, ids=["stopped", "preempted", "signalled", "unknown", "failed"])
def test_diagnose_of_a_log_without_an_error_says_how_the_job_ended(
    tmp_path: Path, types: Types, capsys: pytest.CaptureFixture[str], result: JobResult, ending: str
) -> None:
    layout = ProjectLayout("p-1").run(RUN).job(1)
    (tmp_path / "work" / layout.result).write_bytes(dumps(result))
    (tmp_path / "work" / layout.output).write_text("step 1, loss 0.5\n")
    types("status")
    assert run(["diagnose", RUN]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert ending in out
    assert ("next: pipeline run " in out) is (not result.stopped), "a failed job can be tried again"


@pytest.mark.parametrize("printed", ["step 1, loss 0.5\n", "step 1\nOSError: [Errno 28] No space left on device\n"])
def test_diagnose_names_a_full_disk_once_even_if_the_job_could_not_print_it(
    tmp_path: Path, types: Types, capsys: pytest.CaptureFixture[str], printed: str
) -> None:
    layout = ProjectLayout("p-1").run(RUN).job(1)
    (tmp_path / "work" / layout.result).write_bytes(dumps(JobResult(1, disk_full=True)))
    (tmp_path / "work" / layout.output).write_text(printed)
    types("status")
    code, answer = types("diagnose")
    assert code in (22, 40)
    assert [one["check"] for one in answer["findings"]] == ["disk-full"]
    capsys.readouterr()
    assert run(["diagnose", RUN]) == code
    out = capsys.readouterr().out
    assert out.count("disk-full") == 1 and ("Errno" in printed or "pipeline hosts check" in out), out


def test_the_fix_of_a_diagnosed_run_names_its_host_and_config(
    tmp_path: Path, types: Types, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = ProjectLayout("p-1").run(RUN).job(1)
    line = "halfstep stopped this training: tokenizer-audio-token: <|audio|> is token 7\n"
    (tmp_path / "work" / layout.output).write_text(line)
    _, answer = types("diagnose")
    [one] = answer["diagnoses"]
    typed = "pipeline fix --host here --config plain --only tokenizer"
    assert typed in one["fix"] and typed in answer["findings"][0]["hint"]
    capsys.readouterr()
    assert run(["diagnose"]) == 40
    assert typed in " ".join(capsys.readouterr().out.split())


PRINTED = "precision fp16-mixed: frozen float16, trainable float32, autocast float16, loss scale from 65536\n"


@pytest.mark.parametrize("on_terminal", [False, True])
def test_the_output_is_wrapped_between_words_only_on_a_terminal(
    tmp_path: Path, types: Types, on_terminal: bool
) -> None:
    (tmp_path / "work" / ProjectLayout("p-1").run(RUN).job(1).output).write_text(PRINTED)
    screen, terminal = os.openpty()
    environment = {**os.environ, "COLUMNS": "60", "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "pipeline", "logs", RUN]
    out = terminal if on_terminal else subprocess.PIPE
    done = subprocess.run(argv, stdout=out, stderr=subprocess.PIPE, env=environment, check=True)
    os.close(terminal)
    shown = os.read(screen, 4096).decode().replace("\r\n", "\n") if on_terminal else done.stdout.decode()
    os.close(screen)
    assert shown.replace("\n", " ").strip() == PRINTED.strip()
    assert [len(line) > 60 for line in shown.splitlines()] == ([False, False] if on_terminal else [True])


@pytest.mark.parametrize("verb", ["status", "diagnose", "wait"])
def test_SE_18_values_of_secrets_are_masked_in_notes_of_the_watch_and_in_diagnoses(
    types: Types, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr(hidden, "_values", set())
    monkeypatch.setenv("OUR_PASSPHRASE", "blue-elephant-77")
    note = read_note(Records(tmp_path).run(RUN, "here"))
    assert note is not None
    write_note(Records(tmp_path), replace(note, secrets=("OUR_PASSPHRASE", "UNSET_NAME")))
    layout, work = ProjectLayout("p-1").run(RUN), tmp_path / "work"
    (work / layout.job(1).output).write_text("Traceback (most recent call last):\nOddError: no blue-elephant-77 here\n")
    row = {"check": "memory-creep", "severity": "warning", "message": "at blue-elephant-77", "step": 3, "at_unix": 9e9}
    (work / layout.watched).write_text(json.dumps(row) + "\n")
    _, answer = types(verb)
    assert "***" in str(answer) and "elephant" not in str(answer)
