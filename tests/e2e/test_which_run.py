"""Without RUN, a verb uses the last run that was started or resumed, and warns if another one is training."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.held_project import Held, living, write_held_project
from tests.e2e.user import User

pytestmark = [pytest.mark.train, pytest.mark.timeout(600)]


@pytest.fixture
def held(user: User) -> Iterator[Held]:
    held = write_held_project(user)
    yield held
    held.go()


def detached(user: User, host: str = "one") -> str:
    started = user.types("run", "--host", host, "--config", "plain", "--detach", "--json")
    assert started.code == 0, started.err + started.out
    return str(started.json["run"])


def turn_clock_back(user: User) -> None:
    """Make earlier starts appear one hour later, as if the laptop's clock had been set back since."""
    for path in (user.project / ".halfstep" / "runs").glob("*/run.json"):
        note = json.loads(path.read_bytes())
        path.write_text(json.dumps({**note, "created_unix": note["created_unix"] + 3600.0}))


def test_a_resumed_run_is_the_default_run(user: User, held: Held) -> None:
    script = user.project / "train.py"
    first_text = script.read_text()
    first = detached(user)
    held.await_training(1)
    assert user.types("stop").code == 0
    script.write_text(first_text + "# another\n")
    second = detached(user)
    held.await_training(2)
    assert user.types("stop").code == 0
    script.write_text(first_text)
    assert detached(user) == first != second
    trainer = held.await_training(3)
    assert user.types("status", "--json").json["run"] == first
    stopped = user.types("stop", "--json")
    assert (stopped.code, stopped.json["run"]) == (0, first)
    assert not living(trainer)


def test_stop_names_the_run_that_trains_if_the_last_one_has_ended(user: User, held: Held) -> None:
    script = user.project / "train.py"
    older = detached(user)
    trainer = held.await_training(1)
    turn_clock_back(user)
    script.write_text(script.read_text() + "# another\n")
    newer = detached(user)
    held.await_training(2)
    [row] = [line for line in user.types("list").out.splitlines() if line.startswith(older)]
    assert " 0.0 s ago" in row, "no run is younger than now"
    assert user.types("stop", "--json").json["run"] == newer

    again = user.types("stop", "--json")
    assert (again.code, again.json["run"]) == (60, newer)
    [finding] = [one for one in again.json["findings"] if one["check"] == "another-run"]
    assert (finding["severity"], finding["hint"]) == ("error", f"pipeline stop {older}")
    assert user.types("stop", "plain").code == 60, "a config names the other run as well"
    assert living(trainer)
    seen = user.types("status", "--json")
    assert (seen.code, "another-run" in [one["check"] for one in seen.json["findings"]]) == (0, True)
    assert user.types("stop", newer).code == 0, "the run that was named has nothing to stop"
    assert user.types("stop", older).code == 0
    assert not living(trainer)
    assert user.types("stop").code == 0, "nothing trains any more"


def test_the_same_work_on_two_hosts_has_two_records(user: User, held: Held) -> None:
    first = detached(user, "one")
    trainer = held.await_training(1)
    second = detached(user, "two")
    held.await_training(2)
    assert second == f"{first}@two", "both hosts are this machine, so that both runs have one id"
    assert user.types("stop", "--json").json["run"] == second
    result = user.types("stop", "--json")
    assert (result.code, result.json["findings"][0]["hint"]) == (60, f"pipeline stop {first}")
    assert living(trainer)
    states = {run["run"]: (run["host"], run["state"]) for run in user.types("list", "--json").json["runs"]}
    assert states == {first: ("one", "running"), second: ("two", "stopped")}
    assert user.types("status", first, "--json").json["job"]["state"] == "running"
    assert user.types("logs", second).code == 0
    held.go()
    ended = user.types("wait", first, "--json")
    assert (ended.code, ended.json["run"]) == (0, first)
    assert user.types("pull", second).code == 0
    runs = user.project / ".halfstep" / "runs"
    assert sorted(path.name for path in runs.iterdir() if (path / "jobs").is_dir()) == [second]
    assert Path(runs / first / "run.json").exists()
