"""An error about a missing file is explained by the files of the project: excluded, misspelt, or outside of it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.diagnosis.diagnose import diagnose_text
from pipeline.runs.missing_files import explained_by, nearest_path
from pipeline.stages.verify import diagnose_proof
from pipeline.verbs.diagnose import diagnose
from remote.protocol.findings import Finding
from remote.protocol.proof import ProofReport
from tests.pipeline.views import view_of

PLACES = ("{}", "/h/w/projects/speech-0a1b2c3d/tree/{}", "/h/w/projects/speech-0a1b2c3d/runs/c-1/code/{}")


def write(root: Path, **files: str) -> None:
    for name, text in {".halfstep/note": "", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def found(root: Path, path: str) -> Finding:
    log = f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'\n"
    [finding] = diagnose_text(log, "out.log", explain=explained_by(root))
    return finding


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("ignore", "rules", "path", "pattern", "lines"),
    [
        (".gitignore", "config/*\n", "config/config.yaml", "config/* in .gitignore", "line !/config/config.yaml"),
        (".gitignore", "/data/\n", "data/train.csv", "data/ in .gitignore", "line !/data"),
        (".pipelineignore", "*.json\n!a.json\n", "conf/b.json", "*.json in .pipelineignore", "line !/conf/b.json"),
        (".gitignore", "sets/*\n", "sets", "sets/* in .gitignore", "line !/sets/**"),
        (".gitignore", "models/\n*.bin\n", "models/tiny", "models/ in .gitignore", "lines !/models and !/models/**"),
    ],
)
def test_a_file_that_is_not_sent_is_named_with_the_pattern_and_the_line_that_sends_it(
    tmp_path: Path, ignore: str, rules: str, path: str, pattern: str, lines: str, place: str
) -> None:
    files = {path: "x"} if "." in path else {f"{path}/w.bin": "x"}
    write(tmp_path, **{ignore: rules, **files})
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    one = found(tmp_path, place.format(path))
    assert one.message == f"{path} is not sent to the host: {pattern} excludes it"
    assert one.hint.startswith(f"write the {lines} into .pipelineignore"), one.hint


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("data/trian.csv", "data/train.csv"),
        ("dataset/train.csv", "data/train.csv"),
        ("train.csv", "data/train.csv"),
        ("Data/train.csv", "data/train.csv"),
        ("data/zzzzzzzzzzz.q", ""),
    ],
)
def test_a_path_that_the_laptop_lacks_too_is_named_with_the_most_similar_one(
    tmp_path: Path, path: str, near: str, place: str
) -> None:
    write(tmp_path, **{"data/train.csv": "", "src/model.py": ""})
    one = found(tmp_path, place.format(path))
    assert one.message.startswith(f"{path} exists neither on the host nor in the project on this machine")
    assert one.hint.endswith(f"correct the path: {near}" if near else "before the script reads it")


def test_a_name_without_a_slash_may_be_a_program(tmp_path: Path) -> None:
    write(tmp_path, **{"datasets/train.csv": ""})
    assert found(tmp_path, "dataset").hint == "correct the path: datasets"
    assert "program" in found(tmp_path, "ffmpeg").message


@pytest.mark.parametrize(
    "path", ["/Users/me/data/train.csv", "../sets/train.csv", "~/a.csv", "C:\\a\\b.csv", "/no/x.txt"]
)
def test_a_path_outside_the_project_has_the_hint_of_data_path(tmp_path: Path, path: str) -> None:
    write(tmp_path, **{"data/train.csv": ""})
    one = found(tmp_path, path)
    assert "data: {path: ...}" in one.hint and path in one.message


def test_data_outside_the_project_that_the_laptop_has_is_named(tmp_path: Path) -> None:
    write(tmp_path / "p", **{"a.py": ""})
    (tmp_path / "train.csv").write_text("")
    one = found(tmp_path / "p", f"{tmp_path}/train.csv")
    assert one.message == f"{tmp_path}/train.csv is on this machine, outside the project, and not on the host"
    assert "data: {path: ...}" in one.hint


ERRORS = (
    "FileNotFoundError: [Errno 2] No such file or directory: '{}'\n",
    "soundfile.LibsndfileError: Error opening '{}': System error.\n",
)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    "path",
    [
        "data/a.wav",
        "./data/a.wav",
        "/h/w/projects/speech-0a1b2c3d/runs/c-1/code/outputs/2026-11-23/12-00-59/data/a.wav",
        "/h/w/projects/speech-0a1b2c3d/runs/c-1/code/multirun/2026-11-23/12-00-59/0/data/a.wav",
    ],
)
def test_a_file_that_is_sent_was_searched_in_another_working_folder(tmp_path: Path, path: str, error: str) -> None:
    write(tmp_path, **{"data/a.wav": ""})
    [one] = diagnose_text(error.format(path), "out.log", explain=explained_by(tmp_path))
    assert one.message.startswith("data/a.wav is in the project and is sent: the script searched")
    assert "hydra.run.dir=." in one.hint


@pytest.mark.parametrize("error", ERRORS)
def test_a_file_that_is_not_sent_is_not_searched_in_another_folder(tmp_path: Path, error: str) -> None:
    write(tmp_path, **{"data/a.wav": "", ".pipelineignore": "/data/\n"})
    for path in ("data/a.wav", "/h/w/projects/speech-0a1b2c3d/tree/outputs/2026-11-23/12-00-59/data/a.wav"):
        [one] = diagnose_text(error.format(path), "out.log", explain=explained_by(tmp_path))
        assert one.message == "data/a.wav is not sent to the host: data/ in .pipelineignore excludes it"


def test_an_absolute_path_that_is_sent_and_a_folder_that_is_no_project_have_the_finding_of_the_catalog(
    tmp_path: Path,
) -> None:
    one = found(tmp_path, "data/train.csv")
    assert one.message.endswith(": data/train.csv") and "relative to another folder" in one.message
    write(tmp_path, **{"data/train.csv": ""})
    place = "/h/w/projects/speech-0a1b2c3d/tree/data/train.csv"
    assert found(tmp_path, place).message.endswith(f": {place}")


def test_a_name_that_a_shell_could_run_is_in_no_hint(tmp_path: Path) -> None:
    write(tmp_path, **{"data/train;reboot.csv": "", ".gitignore": ""})
    assert "reboot" not in found(tmp_path, "data/train;rebot.csv").hint
    write(tmp_path, **{".pipelineignore": "*.csv\n"})
    assert "reboot" not in found(tmp_path, "data/train;reboot.csv").hint


@pytest.mark.parametrize("code", ["import trainer_state", "json.load(open('tiny/trainer_state.json'))"])
def test_a_model_folder_given_as_a_checkpoint_is_told_from_missing_data(tmp_path: Path, code: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"import json; {code}"], capture_output=True, text=True, check=False)
    [one] = diagnose_text(done.stderr, explain=explained_by(tmp_path))
    assert (one.check == "resume-no-checkpoint") is code.startswith("json")


def test_verify_and_diagnose_explain_the_missing_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    view = view_of(tmp_path)
    view = replace(view, loaded=load_config("plain", tmp_path))
    write(tmp_path, **{"data/train.csv": ""})
    output = "FileNotFoundError: [Errno 2] No such file or directory: 'data/trian.csv'\n"
    [one] = diagnose_proof(view, ProofReport((), exit=1, output_tail=output)).findings
    assert one.hint == "correct the path: data/train.csv"
    (tmp_path / "out.log").write_text(output)
    monkeypatch.chdir(tmp_path)
    assert diagnose("out.log", as_json=True) == 40
    answer = json.loads(capsys.readouterr().out)
    assert answer["diagnoses"][0]["fix"] == answer["findings"][0]["hint"] == one.hint


def test_the_nearest_path_of_a_large_folder_is_found_without_reading_all_of_it(tmp_path: Path) -> None:
    write(tmp_path, **{f"many/{number}.csv": "" for number in range(20)})
    assert nearest_path(tmp_path, "mny/3.csv") == "many/3.csv"
