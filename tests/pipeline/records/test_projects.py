"""Runs of a folder that `project:` of a config names are found from the folder that contains configs/."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from pipeline.cli.names import runs
from pipeline.records.files import locked
from pipeline.records.find_run import named_run
from pipeline.records.layout import NOTE, Records
from pipeline.records.projects import ANOTHER_FOLDER, project_records
from pipeline.records.runs import RunNote, write_note
from pipeline.verbs.diagnose import diagnose
from pipeline.verbs.list_runs import list_runs
from remote.errors import BadUsage


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose config w trains the folder training/, in which one run is recorded."""
    root = tmp_path / "repository"
    write_config(root, "w", "project: training\ncommand: [python, train.py]\n")
    add_run(root / "training", "w-1111aaaa", "w", 1.0)
    monkeypatch.chdir(root)
    return root


def write_config(root: Path, name: str, text: str) -> None:
    (root / "configs").mkdir(parents=True, exist_ok=True)
    (root / "configs" / f"{name}.yaml").write_text(text)


def add_run(root: Path, run: str, config: str, created: float) -> Records:
    root.mkdir(parents=True, exist_ok=True)
    write_note(Records(root), RunNote(run, "titan", config, "key", created_unix=created))
    return Records(root)


@pytest.mark.parametrize("run", [None, "w", "w-11", "w-1111aaaa"])
@pytest.mark.parametrize("inside", [".", "docs", "training"])
def test_a_run_is_found_from_the_folder_of_configs_and_below_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch, run: str | None, inside: str
) -> None:
    (repository / inside).mkdir(exist_ok=True)
    monkeypatch.chdir(repository / inside)
    note, records = named_run(run, Path.cwd())
    assert (note.name, records) == ("w-1111aaaa", Records(repository / "training"))
    assert list(runs()) == ["w-1111aaaa"]


def test_list_names_the_folder_of_a_run_that_is_not_recorded_in_the_project_itself(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_config(repository, "plain", "project: .\n")
    add_run(repository, "plain-2222bbbb", "plain", 2.0)
    list_runs()
    heading, first, second = (line.split() for line in capsys.readouterr().out.splitlines())
    assert heading[:2] == ["run", "project"]
    assert (first[:2], second[:2]) == (["plain-2222bbbb", "titan"], ["w-1111aaaa", "training"])
    list_runs(as_json=True)
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert [(row["run"], row.get("project")) for row in rows] == [("plain-2222bbbb", None), ("w-1111aaaa", "training")]
    monkeypatch.chdir(repository / "training")
    list_runs()
    assert "project" not in capsys.readouterr().out


def test_of_several_folders_the_run_that_began_last_is_selected_and_a_prefix_is_ambiguous(repository: Path) -> None:
    """The config w had `project: .` when the run of 3.0 was started."""
    records = add_run(repository, "w-3333cccc", "w", 3.0)
    for run in (None, "w"):
        assert named_run(run, Path.cwd())[1] == records
    with pytest.raises(BadUsage, match="'w-' is ambiguous: w-3333cccc, w-1111aaaa"):
        named_run("w-", Path.cwd())
    assert named_run("w-11", Path.cwd())[1] == Records(repository / "training")
    add_run(repository / "training", "w-4444dddd", "w", 4.0)
    assert named_run("w", Path.cwd())[0].name == "w-4444dddd"


def test_a_config_takes_precedence_over_the_beginning_of_a_name_and_an_own_record_over_a_foreign_one(
    repository: Path,
) -> None:
    add_run(repository, "wide-6666ffff", "wide", 6.0)
    assert named_run("w", Path.cwd())[0].name == "w-1111aaaa"
    path = add_run(repository, "w-7777aaaa", "w", 7.0).folder_named("w-7777aaaa") / NOTE
    assert named_run("w", Path.cwd())[0].name == "w-7777aaaa"
    path.write_text(path.read_text().replace("7.0", "8.0"))  # as another user could write it
    for run in ("w", "w-"):
        assert named_run(run, Path.cwd())[0].name == "w-1111aaaa"


def test_an_unknown_run_and_a_run_that_is_being_prepared_are_looked_for_in_the_folder_in_use(repository: Path) -> None:
    with pytest.raises(BadUsage, match="has no run 'w-1111aaab'") as unknown:
        named_run("w-1111aaab", Path.cwd())
    assert unknown.value.instead == ("w-1111aaab", "w-1111aaaa")
    (repository / "training").rename(repository / "gone")
    records = Records(repository / "training")
    with locked(records.lock("titan", "w"), "run w on titan"), pytest.raises(BadUsage, match="is being prepared: pid"):
        named_run(None, Path.cwd())


def test_diagnose_reads_the_newest_failed_proof_of_such_a_folder(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for root, words in ((repository / "training", "ModuleNotFoundError: No module named 'peft'"), (repository, "fine")):
        proof = Records(root).proof_output("titan", "w")
        proof.parent.mkdir(parents=True)
        proof.write_text(words + "\n")
    os.utime(proof, (1.5, 1.5))
    assert diagnose() == 40
    printed = "".join(capsys.readouterr())
    assert "peft" in printed and "training/.halfstep/state/titan/w" in printed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("project: training\n", True),
        ("project: ./training/   # the recipe\n", True),
        ('{"project": "training", "command": ["python", "x.py"]}\n', True),
        ("project: ..\n", False),
        ("project: ../other\n", False),
        ("project: link\n", False),
        ("project: .\n", False),
        ("project: [training]\n", False),
        ("project: training\n- no mapping\n", False),
        ("# project: training\n", False),
    ],
)
def test_only_a_folder_inside_the_project_is_searched(repository: Path, text: str, found: bool) -> None:
    """A config of a cloned project must not select the runs of another project of the user."""
    add_run(repository.parent / "other", "other-5555eeee", "w", 5.0)
    (repository / "link").symlink_to(repository.parent / "other")
    write_config(repository, "w", text)
    assert project_records(repository) == (Records(repository), *([Records(repository / "training")] if found else []))


@pytest.mark.parametrize("form", ["project:{}x", "project:{}'x", "project:.{}x", "project{}x", "project:{}./{}x"])
def test_SE_blanks_in_a_config_are_searched_in_linear_time(form: str) -> None:
    text = form.replace("{}", " \t" * 50_000).encode()
    began = time.process_time()
    assert bool(ANOTHER_FOLDER.search(text)) is (":" in form)
    assert time.process_time() - began < 2  # minutes if each blank is tried as the end of the first blanks


@pytest.mark.parametrize("end", ["", "\n", " \n", "\t\r\nhost: a\n", " # text", ", x: 1", "}"])
def test_only_another_value_than_the_project_itself_is_another_folder(end: str) -> None:
    for value in ("", ".", " '.'", ' "./"', " ./", " ''", "\r"):
        assert not ANOTHER_FOLDER.search(f"project:{value}{end}".encode())
    for value in ("x", " ..", " ./x", " '../'", ' "x"', " . x", "/./"):
        assert ANOTHER_FOLDER.search(f"'project' :{value}{end}".encode())
