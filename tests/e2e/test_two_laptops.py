"""SE-20: two laptops start the same work on one host at once; it is trained once, and both bring its result home."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.user import User
from tests.e2e.waiting_project import WaitingProject, confirm_host_file, write_waiting_project
from tests.lab.wait import until

pytestmark = [pytest.mark.train, pytest.mark.timeout(300)]
RUN = ("run", "--host", "one", "--config", "plain", "--json")


def second_laptop(first: User, folder: Path) -> User:
    """Another user's checkout of the same project, whose host file names the same account of the same host."""
    second = User(folder / "project", folder / "home")
    for path in first.project.rglob("*"):
        if path.is_file() and ".halfstep" not in path.parts:
            place = second.project / path.relative_to(first.project)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
    for name in ("one", "two"):
        confirm_host_file(second, name)
    return second


def test_SE_20_the_same_work_of_two_laptops_is_trained_once_and_both_have_its_end(user: User, tmp_path: Path) -> None:
    waiting: WaitingProject = write_waiting_project(user)
    other = second_laptop(user, tmp_path / "second")
    both = [user.start_pipeline(*RUN), other.start_pipeline(*RUN)]
    waiting.await_training()
    projects = waiting.workdir / "projects"
    until(lambda: len(list(projects.glob("*/runs/*"))) == 2, "both starts", seconds=200)
    waiting.go()
    answers = [json.loads(process.communicate(timeout=200)[0]) for process in both]
    assert [answer["exit_code"] for answer in answers] == [0, 0], answers
    assert len(waiting.trainings) == 1
    assert answers[0]["run"] == answers[1]["run"] and answers[1]["job"]["state"] == "succeeded"
    for one in (user, other):
        again = one.run_pipeline(*RUN)
        assert again.code == 0 and set(again.states.values()) == {"skipped"}, again.err
        assert "trained" in one.run_pipeline("logs").out
    assert len(waiting.trainings) == 1


def test_SE_20_a_second_laptop_attaches_to_a_training_on_two_hosts(user: User, tmp_path: Path) -> None:
    waiting = write_waiting_project(user)
    for name in ("one", "two"):
        with (user.project / "configs" / "hosts" / f"{name}.yaml").open("a") as file:
            file.write("address: 127.0.0.1\n")
        confirm_host_file(user, name)
    other, run = second_laptop(user, tmp_path / "second"), (*RUN[:2], "one,two", *RUN[3:])
    first = user.run_pipeline(*run, "--detach")
    assert first.code == 0, first.err
    waiting.await_training(2)
    second = other.run_pipeline(*run, "--detach")
    assert second.code == 0 and "another project folder has started" in second.err, second.err + second.out
    third = other.start_pipeline(*run)
    waiting.go()
    out, err = third.communicate(timeout=200)
    answer = json.loads(out)
    assert third.returncode == 0, err
    assert [(one["host"], one["job"]) for one in answer["members"]] == [("one", "succeeded"), ("two", "succeeded")]
    assert len(waiting.trainings) == 2
    for one in (user, other):
        for name in (answer["run"], f"{answer['run']}@two"):
            assert one.run_pipeline("status", name, "--json").json["job"]["state"] == "succeeded"
