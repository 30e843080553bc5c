"""After the supervisor is killed, the trainer continues, its end is recorded, and it is not started again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.e2e.user import PATIENCE_S, User, kill
from tests.e2e.waiting_project import WaitingProject, living, write_waiting_project
from tests.lab.wait import until

pytestmark = [pytest.mark.train, pytest.mark.timeout(600)]
RUN = ("run", "--host", "one", "--config", "plain")


@pytest.fixture
def waiting(user: User) -> Iterator[WaitingProject]:
    waiting = write_waiting_project(user)
    yield waiting
    waiting.go()


def kill_supervisor(waiting: WaitingProject) -> None:
    supervisor = waiting.supervisor()
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not living(supervisor), "the supervisor's end")


def test_run_and_logs_end_when_the_trainer_ends(user: User, waiting: WaitingProject) -> None:
    watching = user.start_pipeline(*RUN, "--json")
    try:
        trainer = waiting.await_training()
        logs = user.start_pipeline("logs", "-f")
        kill_supervisor(waiting)
        waiting.go()
        out, err = watching.communicate(timeout=PATIENCE_S)
        assert watching.returncode == 0, out + err
        assert b"trained" in logs.communicate(timeout=PATIENCE_S)[0]
        assert logs.returncode == 0
    finally:
        kill(watching)
    again = user.run_pipeline(*RUN)
    assert (again.code, "nothing to do" in again.out) == (0, True)
    assert waiting.trainings == [trainer]


def test_status_reports_a_job_that_ended_meanwhile_and_run_does_not_repeat_it(
    user: User, waiting: WaitingProject
) -> None:
    assert user.run_pipeline(*RUN, "--detach").code == 0
    trainer = waiting.await_training()
    kill_supervisor(waiting)
    waiting.go()
    until(lambda: not living(trainer), "the trainer's end")
    assert user.run_pipeline("status", "--json").json["job"]["state"] == "succeeded"
    again = user.run_pipeline(*RUN)
    assert again.code == 0, again.out + again.err
    assert waiting.trainings == [trainer]


def test_run_finds_finished_work_that_no_other_verb_has_seen(user: User, waiting: WaitingProject) -> None:
    assert user.run_pipeline(*RUN, "--detach").code == 0
    trainer = waiting.await_training()
    kill_supervisor(waiting)
    waiting.go()
    until(lambda: not living(trainer), "the trainer's end")
    again = user.run_pipeline(*RUN)
    assert again.code == 0, again.out + again.err
    assert waiting.trainings == [trainer]


def test_stop_ends_a_trainer_without_its_supervisor(user: User, waiting: WaitingProject) -> None:
    assert user.run_pipeline(*RUN, "--detach").code == 0
    trainer = waiting.await_training()
    kill_supervisor(waiting)
    stopped = user.run_pipeline("stop", "--json")
    assert (stopped.code, stopped.json["job"]["state"]) == (0, "stopped")
    assert not living(trainer)
