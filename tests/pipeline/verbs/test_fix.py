"""`pipeline fix` in a local folder: the commands that it prints work as printed."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixers.frame import disk_tree
from pipeline.cli.main import run

ROOT = Path(__file__).resolve().parents[3]
BEFORE = "import torch\nx = torch.bfloat16\nL.Trainer(dtype=x).fit(model)\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "my project (2)"
    folder.mkdir()
    (folder / "train.py").write_text(BEFORE)
    return folder


def test_the_printed_undo_command_restores_the_files(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fix", str(project), "--card", "titan-rtx"]) == 0
    assert (project / "train.py").read_text() != BEFORE
    line = next(line for line in capsys.readouterr().out.splitlines() if "--undo" in line).split("`")[1]
    assert run(shlex.split(line)[1:]) == 0
    assert (project / "train.py").read_text() == BEFORE


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["--card", "RTX4090"], ["--card", "rtx-4090"]), (["--only", "tokeniser"], ["--only", "tokenizer"])],
)
def test_the_hint_corrects_a_misspelt_name_in_the_command(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str], meant: list[str]
) -> None:
    assert run(["fix", str(project), *words]) == 2
    assert shlex.join(["pipeline", "fix", str(project), *meant]) in capsys.readouterr().err


@pytest.mark.parametrize(("card", "expected"), [([], ["no-card"]), (["--card", "titan-rtx"], [])])
@pytest.mark.parametrize("words", [["fix", ".", "--diff"], ["plan"]], ids=["fix", "plan"])
def test_a_missing_card_is_a_finding(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    card: list[str],
    expected: list[str],
) -> None:
    monkeypatch.chdir(project)
    assert run([*words, *card, "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [finding["check"] for finding in findings if finding["check"] == "no-card"] == expected


def test_a_file_in_place_of_the_undo_folder_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / ".halfstep").touch()
    assert run(["fix", str(project), "--card", "titan-rtx"]) == 2
    assert (project / "train.py").read_text() == BEFORE
    assert f"{project / '.halfstep'} is not a folder" in capsys.readouterr().err


SUMMARY = """\
    to change   1 file (bf16-to-fp16: 1)
    left alone  tests: 2
    to decide   1 warning, listed above
  `pipeline fix --diff -v` lists every place
"""
LISTED = """\
    to change   1 file (bf16-to-fp16: 1)
    left alone  tests: 2
    to decide   1 warning, listed above
    tests                                   tests/test_a.py
    tests                                   tests/test_b.py
"""


@pytest.mark.parametrize(("words", "end"), [([], SUMMARY), (["-v"], LISTED)])
@pytest.mark.parametrize("columns", ["80", "100"])
def test_the_output_ends_with_what_changed_what_is_left_and_what_to_decide(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    end: str,
    columns: str,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    (project / "tests").mkdir()
    (project / "tests" / "test_a.py").write_text(BEFORE)
    (project / "tests" / "test_b.py").write_text(BEFORE)
    (project / "model.py").write_text(
        f"# float16 overflows here\n{BEFORE.splitlines()[0]}\n# not fp16: NaN\ny = torch.bfloat16\n"
    )
    assert run(["fix", str(project), "--card", "titan-rtx", "--diff", *words]) == 0
    assert capsys.readouterr().out.endswith(end)


def test_the_places_left_alone_are_in_the_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tests").mkdir()
    (project / "tests" / "test_a.py").write_text(BEFORE)
    assert run(["fix", str(project), "--card", "titan-rtx", "--diff", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["left"] == [{"where": "tests/test_a.py", "reason": "tests"}]


@pytest.mark.parametrize(
    ("name", "text", "code"), [("broken.py", "import torch\nx = (torch.bfloat16\n", 31), ("good.py", BEFORE, 0)]
)
def test_plan_and_fix_exit_with_the_same_code(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, code: int
) -> None:
    (project / name).write_text(text)
    monkeypatch.chdir(project)
    assert run(["plan", "--card", "titan-rtx"]) == run(["fix", ".", "--diff", "--card", "titan-rtx"]) == code


@pytest.mark.parametrize("name", ["train.yaml", "demo.ipynb"])
def test_a_git_lfs_pointer_is_named_as_one(project: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (project / name).write_text("version https://git-lfs.example/spec/v1\noid sha256:00\nsize 9\n")
    assert run(["fix", str(project), "--card", "titan-rtx", "--diff", "--json"]) == 0
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["check"], finding["where"], finding["hint"]) == (
        "lfs-pointer",
        name,
        "fetch the file with git-lfs, if the repository is yours",
    )


def test_check_exits_with_1_and_changes_nothing_until_there_is_nothing_to_fix(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fix", str(project), "--card", "titan-rtx"]
    assert run([*words, "--check"]) == 1
    assert "+x = torch.float16" in capsys.readouterr().out
    assert run([*words, "--check", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["exit_code"], answer["changed"]) == (False, 1, [])
    assert (project / "train.py").read_text() == BEFORE
    assert run(words) == 0
    assert run([*words, "--check"]) == 0
    assert run([*words, "--check", "--undo"]) == 2


def test_the_hook_and_the_workflow_run_commands_that_exist(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    workflow = yaml.safe_load((ROOT / "docs" / "ci" / "github-actions.yml").read_text())
    commands = [step["run"] for step in workflow["jobs"]["fix"]["steps"] if "halfstep fix" in step.get("run", "")]
    monkeypatch.chdir(project)
    for words in ([*shlex.split(hook["entry"]), *hook["args"]], *map(shlex.split, commands)):
        assert words[0] == "halfstep"
        assert run(words[1:]) == 1
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["halfstep"] == scripts["pipeline"]
    capsys.readouterr()


@pytest.mark.parametrize(("card", "code"), [("titan-rtx", 23), ("a100", 0)])
@pytest.mark.parametrize("words", [["fix", ".", "--diff"], ["fix", "."], ["plan"]], ids=" ".join)
def test_bf16_below_capability_8_0_has_the_exit_code_of_verify(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    card: str,
    code: int,
) -> None:
    (project / "configs").mkdir()
    (project / "configs/bf.yaml").write_text("command: python train.py\nprecision: bf16\n")
    monkeypatch.chdir(project)
    assert run([*words, "--config", "bf", "--card", card]) == code
    assert ("bf16-unsupported" in capsys.readouterr().out) is bool(code)


def test_plan_on_a_host_names_the_precision_that_verify_would_refuse(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "configs").mkdir()
    (project / "configs/bf.yaml").write_text("command: python train.py\nprecision: bf16\n")
    monkeypatch.chdir(project)
    assert run(["plan", "--host", "local", "--config", "bf", "--card", "titan-rtx", "--json"]) == 23
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [one["where"] for one in findings if one["check"] == "bf16-unsupported"] == ["precision"]


@pytest.mark.parametrize(
    ("place", "severity", "code"), [(["--host", "local"], "error", 31), (["--card", "titan-rtx"], "warning", 0)]
)
def test_plan_names_the_line_at_which_the_script_does_not_parse(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: list[str],
    severity: str,
    code: int,
) -> None:
    (project / "train.py").write_text("x = 1\nprint(x\n")
    (project / "configs").mkdir()
    (project / "configs/own.yaml").write_text("command: python train.py\n")
    monkeypatch.chdir(project)
    assert run(["plan", *place, "--config", "own", "--json"]) == code
    found = [one for one in json.loads(capsys.readouterr().out)["findings"] if one["check"] == "unparsable-source"]
    assert [(one["where"], one["severity"]) for one in found] == [("train.py:2", severity)]


@pytest.mark.parametrize("name", ["train.py", "requirements.txt", "tokenizer.json"])
def test_a_file_that_disappears_while_the_project_is_read_refuses_the_fix(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (project / name).write_text("transformers==5.0.0\n")
    walk = disk_tree.walk_project

    def walk_and_delete(*args: Any, **kwargs: Any) -> Any:
        found = walk(*args, **kwargs)
        (project / name).unlink(missing_ok=True)
        return found

    monkeypatch.setattr(disk_tree, "walk_project", walk_and_delete)
    code = run(["fix", str(project), "--card", "titan-rtx", "--json"])
    [finding] = [each for each in json.loads(capsys.readouterr().out)["findings"] if each["severity"] == "error"]
    assert (code, finding["where"]) == (31, name)
    assert f"{name} was changed while the project was read" in finding["message"]
