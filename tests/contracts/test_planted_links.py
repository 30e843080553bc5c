"""No verb follows a link that a cloned project has in place of a file or folder below `.halfstep`."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pipeline.cli.main import run

SCRIPT = "import torch\n\ndtype = torch.bfloat16\n"
VERBS = {
    "plan": ["plan", "--card", "titan-rtx"],
    "fix": ["fix", ".", "--card", "titan-rtx"],
    "undo": ["fix", ".", "--undo"],
    "list": ["list"],
    "sync": ["run", "--until", "sync", "--host", "local", "--config", "plain"],
    "verify": ["verify", "--no-proof", "--host", "local", "--config", "plain"],
}
KINDS = ["file", "folder", "dangling"]


def call(project: Path, words: Sequence[str]) -> None:
    more = ["--set", f"host.workdir={project.parent / 'work'}"] if "--host" in words else []
    with contextlib.suppress(SystemExit):
        run([*words, *more])


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")
    }


def make_project(root: Path) -> Path:
    project = root / "project"
    (project / "configs").mkdir(parents=True)
    (project / "train.py").write_text(SCRIPT)
    (project / "configs" / "plain.yaml").write_text("command: [python, train.py]\n")
    return project


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that was planned, fixed and sent."""
    project = make_project(tmp_path_factory.mktemp("used"))
    with contextlib.chdir(project):
        for name in ("plan", "fix", "sync"):
            call(project, VERBS[name])
    return project


def links(used: Path) -> Iterator[str]:
    """Yield each path below `.halfstep` of the used project, itself included."""
    for path in (used / ".halfstep", *sorted((used / ".halfstep").rglob("*"))):
        yield path.relative_to(used).as_posix()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", VERBS)
def test_SE_12_no_verb_follows_a_link_below_halfstep(
    used: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, kind: str
) -> None:
    changed = []
    for number, path in enumerate(links(used)):
        root = tmp_path / str(number)
        shutil.copytree(used, root / "project", symlinks=True)
        victim = root / "victim"
        planted = root / "project" / path
        kept = root / "kept"
        planted.rename(kept)
        if verb != "undo":
            (root / "project" / "train.py").write_text(SCRIPT)
        victim.mkdir()
        if kind == "file":
            (victim / "target").write_text("mine")
        elif kind == "folder":
            copied = verb == "undo" and kept.is_dir()
            shutil.copytree(kept, victim / "target") if copied else (victim / "target").mkdir()
            for n in range(12):
                (victim / "target" / f"results{n}.json").write_text("{}")
        planted.symlink_to(victim / "target")
        before = snapshot(victim)
        monkeypatch.chdir(root / "project")
        call(root / "project", VERBS[verb])
        if snapshot(victim) != before:
            changed.append(path)
        shutil.rmtree(root, ignore_errors=True)
    assert changed == []
