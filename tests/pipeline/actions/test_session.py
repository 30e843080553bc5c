"""The session of a verb with a host: what it requires locally, and what is optional."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.actions.preview import preview
from pipeline.actions.run import run_session
from pipeline.actions.session import exclusive_lock, host_session
from pipeline.runs.run_id import name_of
from pipeline.runs.selection import Selection, load_selection
from pipeline.stages.order import STAGE_NAMES
from pipeline.stages.stage import RunOptions
from remote.errors import BadUsage, Busy, DataUntrusted, SecretsUntrusted
from tests.lab.answers import Person
from tests.pipeline.listeners import NoListener


def named_in(root: Path) -> Selection:
    project = root / "project"
    (project / "configs").mkdir(parents=True)
    (project / "train.py").write_text("print('training')\n")
    (project / "configs" / "plain.yaml").write_text("command: [python, train.py]\n")
    return load_selection("local", "plain", [f"host.workdir={root}/there"], project)


def test_a_read_only_verb_needs_no_writable_folder(tmp_path: Path) -> None:
    named = named_in(tmp_path)
    (tmp_path / "project" / ".halfstep").write_text("a file of somebody's")
    with host_session(named, NoListener(), RunOptions(), keep=False) as context:
        assert tuple(stage.name for stage in preview(context).stages) == STAGE_NAMES
    assert (tmp_path / "project" / ".halfstep").read_text() == "a file of somebody's"


def test_a_verb_that_writes_records_reports_what_prevents_it(tmp_path: Path) -> None:
    named = named_in(tmp_path)
    (tmp_path / "project" / ".halfstep").write_text("a file of somebody's")
    with pytest.raises(BadUsage, match=r"\.halfstep is not a folder"), exclusive_lock(named, "test", prompter=None):
        pass


@pytest.mark.parametrize("setting", ["project: ../private", "secrets: [HF_TOKEN]", "data: {path: ../private}"])
@pytest.mark.parametrize("verb", ["lock", "session"])
def test_nothing_is_written_before_the_user_has_confirmed_what_the_config_takes(
    tmp_path: Path, setting: str, verb: str
) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "train.py").touch()
    named_in(tmp_path)
    project = tmp_path / "project"
    (project / "configs" / "plain.yaml").write_text(f"command: [python, train.py]\n{setting}\n")
    named = load_selection("local", "plain", [f"host.workdir={tmp_path}/there"], project)
    for person in (None, Person(yes=False)):
        using = (
            exclusive_lock(named, "test", prompter=person)
            if verb == "lock"
            else host_session(named, NoListener(), RunOptions(), prompter=person)
        )
        with pytest.raises((DataUntrusted, SecretsUntrusted)), using:
            pass
    assert not list(tmp_path.rglob(".halfstep")) and not (tmp_path / "there").exists()
    with exclusive_lock(named, "test", prompter=Person()):
        assert list(tmp_path.rglob(".halfstep"))


def test_the_lock_of_a_run_names_the_run_as_soon_as_its_job_has_started(tmp_path: Path) -> None:
    """A second terminal then shows `pipeline attach RUN`."""
    named = named_in(tmp_path)
    with run_session(named, NoListener(), RunOptions(), None, None) as context:
        context.before_acting(())
        with pytest.raises(Busy) as early, exclusive_lock(named, "test", prompter=None):
            pass
        context.on_job(context)
        with pytest.raises(Busy) as late, exclusive_lock(named, "test", prompter=None):
            pass
    assert early.value.hint == "run the command again when that process has ended"
    assert late.value.hint == f"pipeline attach {name_of(context.view)}"
