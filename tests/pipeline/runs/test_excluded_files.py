"""Which files are not inputs of a run: their changes neither void a proof nor start a new run."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.runs.excluded_files import AUTO_PATTERNS, code_digest, excluded_files
from pipeline.runs.run_id import run_id
from pipeline.runs.trained_files import not_inputs
from pipeline.runs.view import View
from remote.project.scan import scan_project
from tests.pipeline.views import view_of

AUTO = ("auto",)
TRAIN = ("python", "train.py")


def synced(view: View) -> View:
    """Return the view after a scan and a sync of the project as it is now."""
    scan = scan_project(view.loaded.root)
    digest = scan.manifest.source_digest()
    tree = replace(view.survey.tree, source_digest=digest, installed_digest=digest)
    return replace(view, scan=scan, survey=replace(view.survey, tree=tree))


def written(view: View, path: str, text: str) -> View:
    """The view after this file was written and synced."""
    target = view.loaded.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return synced(view)


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "notes/idea.md",
        "docs/conf.py",
        "LICENSE",
        "figures/loss.png",
        "paper.pdf",
        "tests/test_model.py",
        "tests/fixtures/sample.json",
        "src/model_test.py",
        "conftest.py",
        ".github/workflows/ci.yml",
    ],
)
def test_a_changed_document_image_or_test_keeps_the_run(tmp_path: Path, path: str) -> None:
    view = written(view_of(tmp_path), path, "first")
    assert path in not_inputs(view)
    assert run_id(written(view, path, "second")) == run_id(view)


@pytest.mark.parametrize(
    "path",
    [
        "src/model.py",
        "requirements.txt",
        "vocabulary.txt",
        "prompts/system.md",
        "src/templates/chat.md",
        "data/image.png",
        "dataset/card.md",
        "speech/test/sample.json",
        "testing.py",
        "contest.py",
    ],
)
def test_a_file_that_a_training_may_read_is_an_input(tmp_path: Path, path: str) -> None:
    view = written(view_of(tmp_path), path, "first")
    assert path not in not_inputs(view)
    assert run_id(written(view, path, "second")) != run_id(view)


@pytest.mark.parametrize(
    ("command", "path", "is_input"),
    [
        (("python", "tests/smoke.py"), "tests/smoke.py", True),
        (("python", "tests/smoke.py"), "tests/helpers.json", True),
        (("python", "-m", "tests.smoke"), "tests/smoke.py", True),
        (("python", "train.py", "--prompt=docs/prompt.md"), "docs/prompt.md", True),
        (("python", "train.py", "--prompts", "./docs/"), "docs/prompt.md", True),
        (("python", "test_train.py"), "README.md", False),
        (("python", "src/train.py"), "src/README.md", False),
    ],
)
def test_what_the_command_names_is_an_input(command: tuple[str, ...], path: str, is_input: bool) -> None:
    paths = ("tests/smoke.py", "tests/helpers.json", "docs/prompt.md", "README.md", "src/README.md", "test_train.py")
    assert (path not in excluded_files(paths, AUTO, command)) is is_input


@pytest.mark.parametrize(
    ("exclude", "path", "is_excluded"),
    [
        ((), "README.md", False),
        (("auto", "notes/"), "notes/plan.txt", True),
        (("auto", "notes/"), "README.md", True),
        (("auto", "!figures/logo.png"), "figures/logo.png", False),
        (("notes/",), "README.md", False),
    ],
)
def test_the_patterns_are_those_of_the_config(exclude: tuple[str, ...], path: str, is_excluded: bool) -> None:
    assert (path in excluded_files((path,), exclude, TRAIN)) is is_excluded


@pytest.mark.parametrize(
    ("path", "is_input"),
    [("run.log", False), ("logs/first.log", False), ("nohup.out", False), ("data/events.log", True), ("a.out", True)],
)
def test_a_log_file_that_appears_in_the_project_keeps_the_run(tmp_path: Path, path: str, is_input: bool) -> None:
    before = synced(view_of(tmp_path))
    after = written(before, path, "connecting")
    assert (run_id(after) != run_id(before)) is is_input
    assert (run_id(written(after, path, "connecting\ndone")) != run_id(after)) is is_input


def test_a_log_file_is_an_input_if_git_tracks_it_or_the_command_names_it(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    for words in (["init", "-q"], ["add", "-f", "calls.log"]):
        (tmp_path / "calls.log").write_text("first")
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    view = written(view, "run.log", "connecting")
    assert "run.log" in not_inputs(view) and "calls.log" not in not_inputs(view)
    assert run_id(written(view, "calls.log", "second")) != run_id(view)
    named = ("python", "train.py", "--calls=run.log")
    assert "run.log" not in excluded_files(("run.log",), AUTO, named, frozenset({"run.log"}))
    assert "calls.log" in excluded_files(("calls.log",), ("auto", "*.log"), TRAIN)


def notebook(code: str, output: str = "", words: str = "# Title") -> str:
    cells = [
        {"cell_type": "markdown", "source": [words]},
        {"cell_type": "code", "source": [code], "outputs": [{"text": output}], "execution_count": len(output)},
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4})


def id_with(view: View, text: str) -> str:
    return run_id(written(view, "train.ipynb", text))


def test_only_the_code_of_a_notebook_is_an_input(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    first = id_with(view, notebook("x = 1"))
    assert id_with(view, notebook("x = 1", "loss 0.3", "# Other")) == first
    assert id_with(view, notebook("x = 2")) != first
    everything = replace(view, loaded=load_config("plain", tmp_path, ["inputs.exclude=[]"]))
    assert id_with(everything, notebook("x = 1", "loss 0.3")) != id_with(everything, notebook("x = 1"))


def test_a_file_that_is_no_notebook_is_an_input_as_a_whole(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    assert id_with(view, "not json") != id_with(view, "neither")


def test_the_page_names_every_default_pattern() -> None:
    page = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text("utf-8")
    missing = [pattern for pattern in AUTO_PATTERNS if f"`{pattern}`" not in page]
    assert not missing


def test_SE_a_notebook_with_very_many_values_is_not_parsed() -> None:
    def notebook(values: int) -> bytes:
        cell = b'{"cell_type": "code", "source": "x = 1", "outputs": [' + b"1," * values + b"1]}"
        return b'{"cells": [' + cell + b'], "nbformat": 4}'

    assert code_digest(notebook(1_000)) == code_digest(notebook(2_000)) != ""
    assert code_digest(notebook(1_000_001)) == ""


@pytest.mark.parametrize("source", [[1, 2], [None], [["x = 1"]]])
def test_a_notebook_whose_cells_are_no_text_has_no_digest(source: list[object]) -> None:
    cells = [{"cell_type": "code", "source": source}]
    assert code_digest(json.dumps({"cells": cells}).encode()) == ""


@pytest.mark.parametrize("path", ["configs/other.yaml", "explore.ipynb"])
def test_a_file_that_is_edited_during_a_run_keeps_the_run(tmp_path: Path, path: str) -> None:
    first, second = (
        ("project: .\ncommand: [x]\n", "another: [setting]\n")
        if path.endswith(".yaml")
        else (json.dumps({"cells": [{"cell_type": "code", "source": word}]}) for word in ("first", "second"))
    )
    view = written(view_of(tmp_path), path, first)
    before = run_id(view)
    (tmp_path / path).write_text(second)
    assert run_id(replace(view)) == before != run_id(synced(view))
