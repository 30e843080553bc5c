"""Another user who replaces a folder or a file with a link, after it was confirmed, does not choose what is sent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.actions.session import require_consents
from pipeline.cli.main import run
from pipeline.config.load import load_config
from pipeline.export.compose import scan_for_export
from pipeline.runs.consent import require_data_consent
from pipeline.runs.selection import load_selection
from remote.errors import DataUntrusted, SyncRefused
from remote.project.data import scan_data
from remote.project.scan import scan_again, scan_project
from tests.lab.answers import Person


def by_file(shared: Path, private: Path) -> None:
    (shared / "sub/a.txt").unlink()
    (shared / "sub/a.txt").symlink_to(private / "a.txt")


def by_subfolder(shared: Path, private: Path) -> None:
    (shared / "sub").rename(shared / "old")
    (shared / "sub").symlink_to(private)


def by_folder(shared: Path, private: Path) -> None:
    shared.rename(shared.with_name("old"))
    shared.symlink_to(private.parent)


REPLACE = pytest.mark.parametrize("replace", [by_file, by_subfolder, by_folder])


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose data is in a folder beside it, and a private folder with a file of the same name."""
    root = tmp_path / "project"
    (root / "configs").mkdir(parents=True)
    (root / "configs/plain.yaml").write_text("command: [python, train.py]\ndata: {path: ../shared}\n")
    (root / "train.py").write_text("")
    for folder, text in (("shared/sub", "harmless"), ("home/sub", "private!")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.txt").write_text(text)
    monkeypatch.chdir(root)
    return root


class Interrupted(Person):
    """A person who confirms, while another user replaces a folder, at the question that contains the text `at`."""

    def __init__(self, then: Callable[[], None], at: str = "") -> None:
        super().__init__(yes=True)
        self.then = then
        self.at = at

    def confirm(self, question: str) -> bool:
        if self.at in question:
            self.then()
        return super().confirm(question)


@REPLACE
@pytest.mark.parametrize("exported", [False, True])
def test_SE_data_that_became_a_link_during_the_question_is_not_read(
    project: Path, replace: Callable[[Path, Path], None], exported: bool
) -> None:
    shared, loaded = project.parent / "shared", load_config("plain", project)
    (project.parent / "last").mkdir()
    (shared / "sub/inner").mkdir()
    (shared / "sub/inner/last").symlink_to(project.parent / "last")
    person = Interrupted(lambda: replace(shared, project.parent / "home/sub"), at="last, outside of the project")
    confirmed = require_data_consent(loaded, person, typed=False, host=None)
    assert len(person.questions) == 2
    with pytest.raises(DataUntrusted, match=r"home/sub/a\.txt is in a folder that you have not confirmed"):
        if exported:
            scan_for_export(loaded, confirmed)
        else:
            scan_data(shared, confirmed=confirmed)


def test_SE_a_link_that_is_placed_during_the_question_is_asked_about_too(project: Path) -> None:
    shared, private = project.parent / "shared", project.parent / "home/sub"
    person = Interrupted(lambda: by_subfolder(shared, private), at="shared, outside of the project")
    confirmed = require_data_consent(load_config("plain", project), person, typed=False, host=None)
    assert confirmed == (project, shared, private) and str(private) in person.questions[1]


def test_SE_confirmed_data_is_read_through_the_links_that_were_confirmed(project: Path) -> None:
    (project.parent / "shared/more").symlink_to(project.parent / "home")
    confirmed = require_data_consent(load_config("plain", project), Person(yes=True), typed=False, host=None)
    scan = scan_data(project.parent / "shared", confirmed=confirmed)
    assert set(scan.files) == {"sub/a.txt", "more/sub/a.txt"}


def test_SE_data_with_a_cached_digest_is_compared_too(project: Path) -> None:
    for folder in ("shared", "home"):
        os.utime(project.parent / folder / "sub/a.txt", (1, 1))
    shared = project.parent / "shared"
    scan_data(project.parent / "home", project / "cache")
    by_folder(shared, project.parent / "home/sub")
    for _ in range(2):
        with pytest.raises(DataUntrusted):
            scan_data(shared, project / "cache", confirmed=(project, shared))
        scan_data(shared, project / "cache")


def test_SE_a_run_sends_nothing_if_a_link_appears_between_the_consent_and_the_scan(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other user waits until the folder has been listed for the consent, which was given before."""
    selection = load_selection("local", "plain", [f"host.workdir={project.parent / 'work'}"], project)
    require_consents(selection, Person(yes=True))
    scandir, work = os.scandir, project.parent / "work"
    walked: list[str] = []

    def listed(folder: str | int = ".") -> object:
        if str(folder) == str(project.parent / "shared"):
            walked.append(str(folder))
            if len(walked) == 3:
                by_file(project.parent / "shared", project.parent / "home/sub")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", listed)
    words = ["run", "--host", "local", "--config", "plain", "--set", f"host.workdir={work}", "--until", "sync"]
    assert run([*words, "--json"]) == 30
    assert json.loads(capsys.readouterr().out)["findings"][0]["check"] == "data-untrusted"
    assert len(walked) == 3 and not list(work.glob("projects/*/data"))


@pytest.mark.parametrize("again", [False, True])
def test_SE_a_project_whose_folder_became_a_link_is_refused(project: Path, again: bool) -> None:
    scan = scan_project(project)
    (project.parent / "home/train.py").write_text("private = 1\n")
    project.rename(project.with_name("old"))
    project.symlink_to(project.parent / "home")
    with pytest.raises(SyncRefused, match="replaced by a link"):
        scan_again(scan) if again else scan_project(project)
