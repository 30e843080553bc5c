"""SE-12: the .halfstep/ folder of a cloned project is not trusted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.config.hosts import load_host
from pipeline.hosts.open_run import host_of_note
from pipeline.hosts.trust import keep_trust
from pipeline.messages.hints import complete_hint
from pipeline.records.find_run import find_note
from pipeline.records.last_seen import note_job
from pipeline.records.layout import NOTE, Records
from pipeline.records.runs import RunNote, list_notes, read_note, write_note, write_start
from pipeline.runs.start import note_of_evaluation
from pipeline.verbs.run_outcome import outcome_for
from remote.errors import BadUsage
from remote.project.identity import project_of
from remote.protocol.findings import Finding
from remote.protocol.jobs import JobState
from tests.pipeline.config.config_files import write
from tests.pipeline.hosts.cloned_notes import RUN, brought, note

EVIL = {"host": "local", "python": "/project/evil"}


@pytest.mark.parametrize("run", ["../../../victim", "/victim", "", "other-0123abcd"])
def test_SE_12_a_note_of_another_run_than_its_folder_is_rejected(tmp_path: Path, run: str) -> None:
    place = tmp_path / ".halfstep/runs/plain-0123abcd"
    place.mkdir(parents=True)
    (place / NOTE).write_text(
        json.dumps({"run": run, "host": "rig", "config": "c", "project": "p", "created_unix": 1.0})
    )
    assert read_note(place) is None and list_notes(Records(tmp_path)) == ()
    with pytest.raises(BadUsage, match="cannot be read"):
        find_note(Records(tmp_path), "plain-0123abcd")


@pytest.mark.parametrize("link", [".halfstep", ".halfstep/runs", ".halfstep/state", ".halfstep/runs/plain-0123abcd"])
def test_SE_12_a_folder_of_ours_that_is_a_link_is_refused(tmp_path: Path, link: str) -> None:
    root, victim = tmp_path / "project", tmp_path / "victim"
    (root / link).parent.mkdir(parents=True)
    victim.mkdir()
    (root / link).symlink_to(victim)
    with pytest.raises(BadUsage, match="is a symbolic link") as caught:
        write_note(Records(root), note())
    assert list(victim.iterdir()) == [] and caught.value.hint == f"rm {root / link}"


def test_SE_12_a_host_of_a_note_that_came_with_the_project_is_not_reached(tmp_path: Path) -> None:
    write(tmp_path, "host: rig.example\n", "hosts/rig")
    records = Records(tmp_path)
    for name, host in (("a-00000001", EVIL), ("a-00000002", {"host": "rig.example", "port": 2222})):
        place = brought(records, name, note(name, host))
        found = read_note(place)
        assert found is not None and not found.own
        with pytest.raises(BadUsage, match="not written by you"):
            host_of_note(found, records)


@pytest.mark.parametrize(
    ("host", "settings"),
    [
        ("configs/hosts/rig.yaml", {"host": "rig.example", "port": 2222}),
        ("./configs/hosts/rig.yaml", {"host": "rig.example", "port": 2222}),
        ("rig.yaml", {"host": "rig.example", "port": 2222}),
        ("203.0.113.66", {"host": "203.0.113.66"}),
        ("unlisted.example", {"host": "unlisted.example"}),
        ("root@203.0.113.66:2222", {"host": "203.0.113.66", "user": "root", "port": 2222}),
        ("ssh 203.0.113.66", {"host": "203.0.113.66"}),
        ("-oProxyCommand=evil", {"host": "rig.example", "port": 2222}),
        ("../../elsewhere/rig", {"host": "rig.example", "port": 2222}),
    ],
)
def test_SE_12_a_note_that_came_with_the_project_selects_no_host_by_a_path_or_an_address(
    tmp_path: Path, host: str, settings: dict[str, object]
) -> None:
    write(tmp_path, "host: rig.example\nport: 2222\n", "hosts/rig")
    write(tmp_path, "host: rig.example\nport: 2222\n", "rig")
    with pytest.raises(BadUsage, match="is not the name of a configured host"):
        host_of_note(replace(note(host=settings), host=host, own=False), Records(tmp_path))


def test_a_note_that_came_with_the_project_may_name_the_host_that_is_configured(tmp_path: Path) -> None:
    write(tmp_path, "host: rig.example\nport: 2222\n", "hosts/rig")
    records = Records(tmp_path)
    place = brought(records, "plain-0123abcd", note())
    found = read_note(place)
    assert found is not None and host_of_note(found, records).path is not None


VERBS: dict[str, list[str]] = {
    **{verb: [verb, RUN] for verb in ("status", "stop", "wait", "pull", "logs", "tail", "attach", "evaluate", "merge")},
    "pull --weights": ["pull", RUN, "--weights"],
    "report": ["report", RUN],
}


@pytest.mark.parametrize("verb", VERBS)
def test_SE_12_no_verb_acts_on_another_project_that_a_foreign_note_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """The clone has a run of the same name as a run of the user's other project on the same host."""
    mine, clone, work = tmp_path / "mine", tmp_path / "clone", tmp_path / "work"
    settings: dict[str, object] = {"host": "local", "workdir": str(work)}
    write(clone, f"host: local\nworkdir: {work}\n", "hosts/local")
    write(clone, "command: python train.py\n", "plain")
    (clone / "train.py").touch()
    keep_trust(load_host("local", clone))
    brought(
        Records(clone),
        RUN,
        replace(note(host=settings), host="local", project=project_of(mine), state=JobState.RUNNING, seen_unix=1.0),
    )
    monkeypatch.chdir(clone)
    assert run([*VERBS[verb], "--json"]) == 2
    assert f"names the project {project_of(mine)}" in "".join(capsys.readouterr())
    assert not work.exists()


@pytest.mark.parametrize("verb", ["evaluate", "merge"])
def test_SE_12_the_config_of_a_foreign_note_is_not_read_before_its_host_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    private = tmp_path / "private.yaml"
    private.write_text("password: correct-horse\n")
    clone = tmp_path / "clone"
    brought(Records(clone), RUN, replace(note(), host="root@203.0.113.66:2222", config=str(private)))
    monkeypatch.chdir(clone)
    assert run([verb, RUN, "--json"]) == 2
    shown = "".join(capsys.readouterr())
    assert "is not the name of a configured host" in shown and "correct-horse" not in shown


@pytest.mark.parametrize("signed", [True, False])
def test_SE_12_only_a_note_of_this_user_may_name_another_project(tmp_path: Path, signed: bool) -> None:
    """For example, after the user moved the project's folder."""
    write(tmp_path, "host: rig.example\nport: 2222\n", "hosts/rig")
    records, moved = Records(tmp_path), replace(note(), project=project_of(tmp_path / "before"))
    if signed:
        write_note(records, moved)
    else:
        brought(records, RUN, moved)
    found = find_note(records, RUN)
    if signed:
        assert host_of_note(found, records).config.port == 2222
    else:
        with pytest.raises(
            BadUsage, match=f"not written by you on this machine, and it names the project {moved.project}"
        ):
            host_of_note(found, records)


@pytest.mark.parametrize("key", ["", ".", "..", "../other", "a/b", "/etc", "a b", "-rf", "$(id)", "a;id", "a\n"])
def test_SE_12_a_note_whose_project_is_no_folder_name_is_not_read(tmp_path: Path, key: str) -> None:
    place = brought(Records(tmp_path), RUN, replace(note(), project=key))
    assert read_note(place) is None


def test_a_note_written_by_this_laptop_is_accepted_after_its_host_file_changed(tmp_path: Path) -> None:
    records = Records(tmp_path)
    write_note(records, note())
    note_job(records.run("plain-0123abcd", "rig"), JobState.RUNNING)
    place = records.run("plain-0123abcd", "rig")
    found = read_note(place)
    assert found is not None and found.own
    assert host_of_note(found, records).config.port == 2222


def test_SE_12_a_note_that_was_modified_is_rejected(tmp_path: Path) -> None:
    records = Records(tmp_path)
    write_note(records, note())
    path = records.run("plain-0123abcd", "rig") / NOTE
    path.write_text(path.read_text().replace("rig.example", "evil.example"))
    found = read_note(path.parent)
    assert found is not None and not found.own


@pytest.mark.parametrize("settings", [{}, {"host": 3}, {"host": "rig.example", "port": "many"}])
def test_SE_12_a_note_without_valid_settings_of_its_host_is_damaged(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    write(tmp_path, "host: rig.example\n", "hosts/rig")
    records, damaged = Records(tmp_path), note(host={"host": "rig.example"})
    write_note(records, damaged)
    with pytest.raises(BadUsage, match="is damaged"):
        host_of_note(replace(damaged, host_config=settings), records)


def test_SE_12_a_foreign_record_is_not_the_last_run_and_does_not_exhaust_the_count_of_starts(tmp_path: Path) -> None:
    records = Records(tmp_path)
    brought(records, "plain-89abcdef", replace(note("plain-89abcdef"), created_unix=9e9))
    path = records.folder_named("plain-89abcdef") / NOTE
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "start": 2**63 - 1, "own": True}))
    write_start(records, note())
    last = find_note(records, None)
    assert last.run == "plain-0123abcd" and last.start == 1


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("write_one", [write_note, write_start])
def test_SE_12_an_evaluation_of_a_foreign_record_is_not_signed(
    tmp_path: Path, own: bool, write_one: Callable[[Records, RunNote], None]
) -> None:
    records = Records(tmp_path)
    write_note(records, note()) if own else brought(records, "plain-0123abcd", note())
    training = find_note(records, "plain-0123abcd")
    write_one(records, note_of_evaluation(training, "evaluate-plain-89abcdef", ()))
    note_job(records.folder_named("evaluate-plain-89abcdef"), JobState.SUCCEEDED)
    evaluation = find_note(records, "evaluate-plain-89abcdef")
    assert evaluation.own is own and evaluation.state is JobState.SUCCEEDED


@pytest.mark.parametrize("more", [{}, {"evaluates": "tiny-00000000"}])
def test_SE_the_commands_of_a_record_of_another_user_name_none_of_its_values(more: dict[str, str]) -> None:
    foreign = replace(note(), own=False, host="root@203.0.113.66:2222", config="/home/me/secret.yaml", **more)
    for command in (foreign.start_command, foreign.resume_command):
        assert command.startswith("pipeline run --host ... --config ...")
        assert complete_hint(command, foreign.host, foreign.config) == command


@pytest.mark.parametrize("hint", ["pipeline run", "pipeline fix --diff", "pipeline run --host HOST --config NAME"])
def test_SE_hints_about_a_record_of_another_user_do_not_repeat_its_config(hint: str) -> None:
    foreign = replace(note(), own=False, config="/home/me/secret.yaml", given=("--set", "data.path=/home/me"))
    assert "/home/me" not in foreign.completed(hint)
    outcome = replace(outcome_for("status", foreign), findings=(Finding.error("job", "stopped", hint=hint),))
    assert "/home/me" not in outcome.shown_findings[0].hint
    mine = replace(foreign, own=True)
    assert "/home/me/secret.yaml" in mine.completed(hint)
