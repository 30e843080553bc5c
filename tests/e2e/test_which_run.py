"""Without RUN, a verb uses the training that was started or resumed last, and warns of other running jobs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.user import User
from tests.e2e.waiting_project import WaitingProject, living, write_waiting_project

pytestmark = [pytest.mark.train, pytest.mark.timeout(600)]


@pytest.fixture
def waiting(user: User) -> Iterator[WaitingProject]:
    waiting = write_waiting_project(user)
    yield waiting
    waiting.go()


def detached(user: User, host: str = "one") -> str:
    started = user.run_pipeline("run", "--host", host, "--config", "plain", "--detach", "--json")
    assert started.code == 0, started.err + started.out
    return str(started.json["run"])


def turn_clock_back(user: User) -> None:
    """Make earlier starts appear one hour later, as if the laptop's clock had been set back since."""
    for path in (user.project / ".halfstep" / "runs").glob("*/run.json"):
        note = json.loads(path.read_bytes())
        path.write_text(json.dumps({**note, "created_unix": note["created_unix"] + 3600.0}))


def test_a_resumed_run_is_the_default_run(user: User, waiting: WaitingProject) -> None:
    script = user.project / "train.py"
    first_text = script.read_text()
    first = detached(user)
    waiting.await_training(1)
    ended = user.run_pipeline("stop")
    assert ended.code == 0 and "to start again at step 0, unless the command itself resumes" in ended.out
    assert "in the run's folder: pipeline run --host one --config plain" in ended.out
    diagnosed = user.run_pipeline("diagnose")
    assert (diagnosed.code, "the job was stopped on request" in diagnosed.out) == (0, True), diagnosed.out
    assert "failed" not in diagnosed.out
    log = user.project / ".halfstep/runs" / first / "jobs/1/output.log"
    assert log.is_file(), "stop pulls the logs, so a comparison has the curves of the stopped run"
    shutil.rmtree(log.parents[1])
    assert user.run_pipeline("report", first).code == 0 and log.is_file(), "logs that were never pulled are pulled"
    script.write_text(first_text + "# another\n")
    second = detached(user)
    waiting.await_training(2)
    assert user.run_pipeline("stop").code == 0
    script.write_text(first_text)
    assert detached(user) == first != second
    trainer = waiting.await_training(3)
    page = Path(user.run_pipeline("report", "--json").json["artifacts"]["report"])
    assert re.search(r"<b>plain</b> on .*: running.*, after ", page.read_text())
    assert user.run_pipeline("status", "--json").json["run"] == first
    stopped = user.run_pipeline("stop", "--json")
    assert (stopped.code, stopped.json["run"]) == (0, first)
    assert not living(trainer)
    user.run_pipeline("report")
    words = page.read_text()
    assert "stopped</span></h1>" in words and "failed" not in words.partition("Proof before the training")[0]
    assert words.count('<span class="pill warn">stopped</span>') >= 2, "both jobs were stopped"


def test_stop_names_the_run_that_trains_if_the_last_one_has_ended(user: User, waiting: WaitingProject) -> None:
    script = user.project / "train.py"
    older = detached(user)
    trainer = waiting.await_training(1)
    turn_clock_back(user)
    script.write_text(script.read_text() + "# another\n")
    newer = detached(user)
    waiting.await_training(2)
    [row] = [line for line in user.run_pipeline("list").out.splitlines() if line.startswith(older)]
    assert " 0.0 s ago" in row, "no run is younger than now"
    stopped = user.run_pipeline("stop", "--json")
    assert (stopped.code, stopped.json["run"]) == (0, newer)
    [other] = stopped.json["findings"]
    assert (other["severity"], other["hint"]) == ("warning", f"pipeline stop {older}")
    assert other["message"] == f"{older} is still running on one"

    again = user.run_pipeline("stop", "--json")
    assert (again.code, again.json["run"]) == (60, newer)
    [finding] = [one for one in again.json["findings"] if one["check"] == "another-run"]
    assert (finding["severity"], finding["hint"]) == ("error", f"pipeline stop {older}")
    assert user.run_pipeline("stop", "plain").code == 60, "a config names the other run as well"
    assert living(trainer)
    seen = user.run_pipeline("status", "--json")
    assert (seen.code, "another-run" in [one["check"] for one in seen.json["findings"]]) == (0, True)
    assert user.run_pipeline("stop", newer).code == 0, "the run that was named has nothing to stop"
    assert user.run_pipeline("stop", older).code == 0
    assert not living(trainer)
    assert user.run_pipeline("stop").code == 0, "nothing trains any more"


def test_the_same_work_on_two_hosts_has_two_records(user: User, waiting: WaitingProject) -> None:
    first = detached(user, "one")
    trainer = waiting.await_training(1)
    second = detached(user, "two")
    waiting.await_training(2)
    assert second == f"{first}@two", "both hosts are this machine, so that both runs have one id"
    assert user.run_pipeline("stop", "--json").json["run"] == second
    result = user.run_pipeline("stop", "--json")
    assert (result.code, result.json["findings"][0]["hint"]) == (60, f"pipeline stop {first}")
    assert living(trainer)
    states = {run["run"]: (run["host"], run["state"]) for run in user.run_pipeline("list", "--json").json["runs"]}
    assert states == {first: ("one", "running"), second: ("two", "stopped")}
    assert user.run_pipeline("status", first, "--json").json["job"]["state"] == "running"
    assert user.run_pipeline("logs", second).code == 0
    waiting.go()
    ended = user.run_pipeline("wait", first, "--json")
    assert (ended.code, ended.json["run"]) == (0, first)
    assert user.run_pipeline("pull", second).code == 0
    runs = user.project / ".halfstep" / "runs"
    assert sorted(path.name for path in runs.iterdir() if (path / "jobs").is_dir()) == [second]
    assert Path(runs / first / "run.json").exists()


def write(project: Path, names: Sequence[str], word: str) -> None:
    """Write files that contain the word; in a notebook, it is an output."""
    cells = [{"cell_type": "code", "source": ["x = 1"], "outputs": [word]}]
    notebook = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4})
    for name in names:
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(notebook if name.endswith(".ipynb") else f"# {word}\n")


def test_a_changed_readme_note_image_output_or_test_trains_nothing_and_a_changed_script_is_named_first(
    user: User, waiting: WaitingProject
) -> None:
    waiting.go()
    words = ("run", "--host", "one", "--config", "plain")
    others = ("README.md", "look.ipynb", "loss.png", "notes/idea.md", "tests/test_it.py")
    write(user.project, others, "first")
    first = user.run_pipeline(*words, "--json")
    assert first.code == 0, first.err + first.out
    write(user.project, others, "second")

    planned = user.run_pipeline("plan", *words[1:], "--json")
    assert (planned.json["run"], planned.json["send"]) == (first.json["run"], sorted(others))
    assert set(others) - set(planned.json["not_inputs"]) == {"look.ipynb"}, "of the notebook, only the outputs"
    plan = user.run_pipeline("plan", *words[1:]).out
    assert "not inputs of the run (inputs.exclude): README.md, " in plan and "a new run" not in plan
    configured = user.run_pipeline("plan", *words[1:], "--set", "inputs.exclude=[]")
    assert f"because these inputs differ from {first.json['run']}:" in configured.out
    assert set(re.findall(r"^ +(\S+) \(changed\)$", configured.out, re.MULTILINE)) >= {"look.ipynb"}
    assert {name for name, state in planned.states.items() if state != "skipped"} == {"sync", "fix"}
    again = user.run_pipeline(*words, "--json")
    assert again.json["run"] == first.json["run"]
    assert {name for name, state in again.states.items() if state != "skipped"} == {"sync", "fix"}
    assert len(waiting.trainings) == 1

    script = user.project / "train.py"
    script.write_text(script.read_text() + "# another\n")
    assert f"differ from {first.json['run']}:\n    train.py (changed)" in user.run_pipeline("plan", *words[1:]).out
    changed = user.run_pipeline(*words, "--set", "grace_s=5")
    assert changed.code == 0
    said, proved = (changed.out.index(words) for words in (f"differ from {first.json['run']}:", "  verify  "))
    assert said < proved and "train.py (changed)" in changed.out[said:proved]
    assert len(waiting.trainings) == 2


def test_resume_goes_on_with_an_older_run_although_its_files_have_changed(user: User, waiting: WaitingProject) -> None:
    older = detached(user)
    waiting.await_training(1)
    assert user.run_pipeline("stop").code == 0
    script = user.project / "train.py"
    script.write_text(script.read_text() + "print('changed')\n")
    planned = user.run_pipeline("plan", "--host", "one", "--config", "plain")
    assert f"a new run, because these inputs differ from {older}:" in planned.out, planned.out
    assert "to continue" not in planned.out, "the script saves no checkpoint from which the run could continue"

    resumed = user.run_pipeline("run", "--resume", older, "-d", "--json")
    assert (resumed.code, resumed.json["run"]) == (0, older), resumed.err + resumed.out
    waiting.await_training(2)
    busy = user.run_pipeline("run", "--resume", older, "--set", "grace_s=5", "-d", "--json")
    assert (busy.code, busy.json["run"]) == (0, older), "the same inputs reattach"
    waiting.go()
    assert user.run_pipeline("wait").code == 0
    assert "changed" in user.run_pipeline("logs").out

    finished = user.run_pipeline("run", "--host", "one", "--config", "plain", "--json")
    assert (finished.code, finished.json["run"]) == (0, older), "the resumed run is the run of these inputs"
    assert len(waiting.trainings) == 2
    script.write_text(script.read_text() + "print('changed again')\n")
    refused = user.run_pipeline("run", "--resume", older, "--json")
    assert (refused.code, refused.json["findings"][0]["message"]) == (
        2,
        f"{older} has succeeded with other inputs; there is nothing to resume",
    )
    assert refused.states["train"] == "pending", "nothing was proved for a run that cannot be resumed"
    assert user.run_pipeline("run", "--resume", older, "--force", "train").code == 2
