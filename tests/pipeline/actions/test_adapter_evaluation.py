"""What `evaluate --adapter` checks before it connects to a host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.actions.adapter_evaluation import _opened_files, evaluate_folder
from pipeline.runs.selection import load_selection
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


def test_SE_a_link_of_the_user_does_not_hide_that_the_folder_of_the_project_became_a_link(project: Path) -> None:
    (project / "adapter").rename(project.parent / "private")
    (project / "adapter").symlink_to("../private")
    (project.parent / "mine").symlink_to("clone/adapter")
    with pytest.raises(DataUntrusted, match="nothing was sent"):
        evaluate("../mine")


@pytest.mark.parametrize("where", ["adapter", "../downloaded"])
def test_a_link_out_of_the_adapter_is_refused_for_any_project_in_the_config(project: Path, where: str) -> None:
    (project / "code").mkdir()
    (project / "train.py").rename(project / "code" / "train.py")
    with (project / "configs" / "mine.yaml").open("a") as config:
        config.write("project: code\n")
    (project / "adapter").rename(project / where)
    (project / "private").write_text("private")
    (project / where / FILES[2]).unlink()
    (project / where / FILES[2]).symlink_to(project / "private")
    with pytest.raises(DataUntrusted, match=f"{FILES[2]} .*nothing was sent"):
        evaluate(where)


def test_an_adapter_in_a_download_cache_may_be_linked_to_the_blobs_of_the_cache(project: Path) -> None:
    cache = project.parent / "cache"
    for folder in ("snapshots", "blobs"):
        (cache / folder).mkdir(parents=True)
    (project / "adapter").rename(cache / "snapshots" / "1f")
    for name in FILES:
        (cache / "snapshots" / "1f" / name).rename(cache / "blobs" / name)
        (cache / "snapshots" / "1f" / name).symlink_to(f"../../blobs/{name}")
    with pytest.raises(HalfstepError, match="NOT_SET_HERE"):
        evaluate("../cache/snapshots/1f")


def test_blobs_that_are_themselves_a_link_are_refused(project: Path) -> None:
    cache = project.parent / "cache"
    (cache / "snapshots").mkdir(parents=True)
    (project / "adapter").rename(cache / "snapshots" / "1f")
    (project.parent / "private").mkdir()
    (cache / "snapshots" / "1f" / FILES[0]).rename(project.parent / "private" / "key")
    (cache / "blobs").symlink_to(project.parent / "private")
    (cache / "snapshots" / "1f" / FILES[0]).symlink_to("../../blobs/key")
    with pytest.raises(DataUntrusted):
        evaluate("../cache/snapshots/1f")


@pytest.mark.parametrize("name", FILES)
def test_SE_the_file_that_was_checked_is_read_although_a_link_replaces_it(project: Path, name: str) -> None:
    (project.parent / "private").write_text("private")
    adapter = project / "adapter"
    with _opened_files(adapter, project) as files:
        (adapter / name).unlink()
        (adapter / name).symlink_to(project.parent / "private")
        assert files[name].read() == b"{}"
    with pytest.raises(DataUntrusted), _opened_files(adapter, project):
        pass


def test_SE_a_folder_outside_of_the_project_that_becomes_a_link_before_its_files_are_opened_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user who may write to the folder above puts the link in place once the path was resolved."""
    adapter, private, realpath = project.parent / "downloaded", project.parent / "private", os.path.realpath
    (project / "adapter").rename(private)
    adapter.mkdir()

    def then_replaced(path: Path) -> str:
        real = realpath(path)
        if path == adapter and not adapter.is_symlink():
            adapter.rmdir()
            adapter.symlink_to(private)
        return real

    monkeypatch.setattr(os.path, "realpath", then_replaced)
    with pytest.raises(DataUntrusted, match="nothing was sent"), _opened_files(adapter, project):
        pass
