"""`pipeline run` with several values: one after another on the host, also without the laptop."""

from __future__ import annotations

import pytest

from tests.e2e.user import User, kill
from tests.e2e.waiting_project import WaitingProject, write_waiting_project
from tests.lab.wait import until

pytestmark = [pytest.mark.train, pytest.mark.timeout(900)]
FAILS = 'if os.environ.get("NAME") == "b" and "HALFSTEP_PROOF" not in os.environ:\n    raise SystemExit(3)\n'
SEVERAL = ("run", "--host", "one", "--config", "plain", "--set", "env.NAME=a,b,c", "--no-heal")


@pytest.fixture
def waiting(user: User) -> WaitingProject:
    waiting = write_waiting_project(user)
    script = user.project / "train.py"
    script.write_text(script.read_text().replace("\nmodel =", f"\n{FAILS}\nmodel ="))
    return waiting


def test_one_failure_does_not_stop_the_others_and_the_queue_outlives_the_laptop(
    user: User, waiting: WaitingProject
) -> None:
    command = user.start_pipeline(*SEVERAL)
    in_queue = "projects/*/runs/*/jobs/1/supervisor.log"
    until(lambda: len(list(waiting.workdir.glob(in_queue))) == 3, "three jobs in the queue", seconds=400)
    waiting.await_training(1)
    kill(command)
    known = user.run_pipeline("list", "--json").json["runs"]
    assert [row["set"] for row in known] == [["env.NAME=c"], ["env.NAME=b"], ["env.NAME=a"]], "the newest first"
    assert user.run_pipeline("status", "--json").json["run"] == known[0]["run"]
    waits = user.run_pipeline("logs", "--json")
    assert (waits.code, [one["check"] for one in waits.json["findings"]]) == (0, ["not-begun"]), waits.err
    waiting.go()
    until(lambda: len(list(waiting.workdir.glob("projects/*/runs/*/jobs/1/result.json"))) == 3, "all three")
    assert len(waiting.trainings) == 2
    again = user.run_pipeline(*SEVERAL, "--json")
    assert (again.code, [row["exit_code"] for row in again.json["runs"]]) == (40, [0, 40, 0])
    assert [row["set"] for row in again.json["runs"]] == [["env.NAME=a"], ["env.NAME=b"], ["env.NAME=c"]]
    assert [row["job"]["state"] for row in again.json["runs"]] == ["succeeded", "failed", "succeeded"]
    listed = user.run_pipeline("list", "--json").json["runs"]
    assert sorted((row["set"], row["state"]) for row in listed) == [
        (["env.NAME=a"], "succeeded"),
        (["env.NAME=b"], "failed"),
        (["env.NAME=c"], "succeeded"),
    ]
    assert len(waiting.trainings) == 2


def test_a_refused_run_does_not_stop_the_others(user: User, waiting: WaitingProject) -> None:
    waiting.go()
    (user.project / "broken.py").write_text("raise SystemExit(5)\n")
    (user.project / "configs" / "broken.yaml").write_text("project: .\ncommand: [python, broken.py]\n")
    done = user.run_pipeline("run", "--host", "one", "--config", "broken,plain", "--json")
    rows = done.json["runs"]
    assert (rows[0]["ok"], rows[1]["ok"]) == (False, True), done.err
    assert done.code == rows[0]["exit_code"] != 0
    assert rows[1]["job"]["state"] == "succeeded"
    again = user.run_pipeline("run", "--host", "one", "--config", "plain,plain", "--json")
    assert (again.code, set(again.states.values())) == (0, {"skipped"})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--config", "plain,plian"), "there is no config 'plian'"),
        (("--config", "plain", "--set", "train.seed=1,x"), "train.seed"),
        (("--config", "plain,tiny", "--resume", "plain-01234567"), "--resume continues one run"),
        (("--config", "plain", "--set", "train.seed=" + ",".join("123456789abcdefgh")), "17 runs"),
    ],
)
def test_nothing_starts_if_one_of_the_runs_is_invalid(
    user: User, waiting: WaitingProject, words: tuple[str, ...], told: str
) -> None:
    refused = user.run_pipeline("run", "--host", "one", *words)
    assert refused.code == 2
    assert told in refused.err
    assert not list(waiting.workdir.glob("projects/*"))
