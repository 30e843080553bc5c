"""After the supervisor is killed, the trainer continues, its end is recorded, and it is not started again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.e2e.held_project import Held, living, write_held_project
from tests.e2e.user import PATIENCE_S, User, kill
from tests.lab.wait import until

pytestmark = [pytest.mark.train, pytest.mark.timeout(600)]
RUN = ("run", "--host", "one", "--config", "plain")


@pytest.fixture
def held(user: User) -> Iterator[Held]:
    held = write_held_project(user)
    yield held
    held.go()


def kill_supervisor(held: Held) -> None:
    supervisor = held.supervisor()
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not living(supervisor), "the supervisor's end")


def test_run_and_logs_end_when_the_trainer_ends(user: User, held: Held) -> None:
    watching = user.starts(*RUN, "--json")
    try:
        trainer = held.await_training()
        logs = user.starts("logs", "-f")
        kill_supervisor(held)
        held.go()
        out, err = watching.communicate(timeout=PATIENCE_S)
        assert watching.returncode == 0, out + err
        assert b"trained" in logs.communicate(timeout=PATIENCE_S)[0]
        assert logs.returncode == 0
    finally:
        kill(watching)
    again = user.types(*RUN)
    assert (again.code, "nothing to do" in again.out) == (0, True)
    assert held.trainings == [trainer]


def test_status_reports_a_job_that_ended_meanwhile_and_run_does_not_repeat_it(user: User, held: Held) -> None:
    assert user.types(*RUN, "--detach").code == 0
    trainer = held.await_training()
    kill_supervisor(held)
    held.go()
    until(lambda: not living(trainer), "the trainer's end")
    assert user.types("status", "--json").json["job"]["state"] == "succeeded"
    again = user.types(*RUN)
    assert again.code == 0, again.out + again.err
    assert held.trainings == [trainer]


def test_run_finds_finished_work_that_no_other_verb_has_seen(user: User, held: Held) -> None:
    assert user.types(*RUN, "--detach").code == 0
    trainer = held.await_training()
    kill_supervisor(held)
    held.go()
    until(lambda: not living(trainer), "the trainer's end")
    again = user.types(*RUN)
    assert again.code == 0, again.out + again.err
    assert held.trainings == [trainer]


def test_stop_ends_a_trainer_without_its_supervisor(user: User, held: Held) -> None:
    assert user.types(*RUN, "--detach").code == 0
    trainer = held.await_training()
    kill_supervisor(held)
    stopped = user.types("stop", "--json")
    assert (stopped.code, stopped.json["job"]["state"]) == (0, "stopped")
    assert not living(trainer)
