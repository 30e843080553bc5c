"""What `evaluate --adapter` checks before it connects to a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.actions.adapter_evaluation import evaluate_folder
from pipeline.work.selection import load_selection
from remote.errors import DataUntrusted, HalfstepError
from tests.pipeline.listeners import NoListener

FILES = ("adapter_model.safetensors", "adapter_config.json", "halfstep-adapter.json")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "clone"
    (root / "configs").mkdir(parents=True)
    (root / "configs" / "mine.yaml").write_text("command: [python, train.py]\nsecrets: [NOT_SET_HERE]\n")
    (root / "train.py").touch()
    (root / "adapter").mkdir()
    for name in FILES:
        (root / "adapter" / name).write_text("{}")
    monkeypatch.chdir(root)
    return root


def evaluate(adapter: str) -> None:
    selection = load_selection("local", "mine", (), Path.cwd())
    evaluate_folder(Path(adapter), selection, NoListener(), prompter=None)


@pytest.mark.parametrize("name", FILES)
def test_an_adapter_of_the_project_that_links_to_a_file_outside_of_it_is_refused(project: Path, name: str) -> None:
    (project.parent / "private").write_text("private")
    (project / "adapter" / name).unlink()
    (project / "adapter" / name).symlink_to(project.parent / "private")
    with pytest.raises(DataUntrusted, match=f"{name} .*nothing was sent"):
        evaluate("adapter")


def test_a_folder_of_the_project_that_links_to_one_outside_of_it_is_refused(project: Path) -> None:
    (project / "adapter").rename(project.parent / "private")
    (project / "adapter").symlink_to(project.parent / "private")
    with pytest.raises(DataUntrusted):
        evaluate("adapter")


def test_an_adapter_outside_of_the_project_may_contain_links(project: Path) -> None:
    (project / "adapter").rename(project.parent / "downloaded")
    (project.parent / "blob").write_text("{}")
    (project.parent / "downloaded" / FILES[0]).unlink()
    (project.parent / "downloaded" / FILES[0]).symlink_to("../blob")
    with pytest.raises(HalfstepError, match="NOT_SET_HERE"):
        evaluate("../downloaded")
