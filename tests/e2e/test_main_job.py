"""`pipeline run` through all stages, then again, locally and over a real sshd."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader  # noqa: TID253

from tests.e2e.plain_project import write_plain_project
from tests.e2e.user import QUICK, User
from tests.e2e.waiting_project import write_waiting_project
from tests.lab.sshd import Sshd

STAGES = ("sync", "environment", "fix", "verify", "train", "logs")
pytestmark = [pytest.mark.train, pytest.mark.timeout(600)]


def tree_of(root: Path) -> dict[str, str]:
    """Map every file under a folder to its digest."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def steps_in(folder: Path) -> set[int]:
    """Return the optimizer steps that TensorBoard's own loader finds in every event file under a folder."""
    files = [path for path in folder.rglob("*tfevents*") if path.is_file()]
    assert files
    return {event.step for path in files for event in EventFileLoader(str(path)).Load() if event.HasField("summary")}


def assert_came_home(user: User, run: str) -> None:
    folder = user.project / ".halfstep" / "runs" / run
    assert {1, 2, 3, 4} <= steps_in(folder)
    assert (folder / "adapter" / "adapter_model.safetensors").stat().st_size > 1000
    assert json.loads((folder / "adapter" / "adapter_config.json").read_text())["peft_type"] == "LORA"


@pytest.mark.ssh
@pytest.mark.parametrize("config", ["tiny", "tiny_qwen2audio"])
def test_a_run_over_ssh_trains_once_and_has_nothing_to_do_the_second_time(user: User, sshd: Sshd, config: str) -> None:
    user.write_host_file("titan", sshd)
    before = tree_of(user.project)
    first = user.run_pipeline("run", "--host", "titan", "--config", config, *QUICK, "--json")
    assert first.code == 0, first.err + first.out
    assert first.states == dict.fromkeys(STAGES, "done")
    job = first.json["job"]
    assert (job["state"], job["step"], job["steps"], job["exit"]) == ("succeeded", 4, 4, 0)
    assert job["best_loss"] <= job["loss"]
    assert_came_home(user, first.json["run"])

    tree_before = tree_of(sshd.home)
    second = user.run_pipeline("run", "--host", "titan", "--config", config, *QUICK, "--json")
    assert (second.code, second.states) == (0, dict.fromkeys(STAGES, "skipped")), second.out
    assert second.json["run"] == first.json["run"]
    assert tree_of(sshd.home) == tree_before, "a run that has nothing to do changed the host"
    mine = {path: digest for path, digest in tree_of(user.project).items() if not path.startswith(".halfstep/")}
    assert mine == before, "the user's own files were touched"


def test_a_local_run_reports_what_it_did(user: User) -> None:
    words = ("run", "--host", "local", "--config", "tiny", *QUICK)
    first = user.run_pipeline(*words)
    assert first.code == 0, first.err + first.out
    for stage in STAGES:
        assert stage in first.out
    assert "adapter" in first.out
    second = user.run_pipeline(*words)
    assert second.code == 0
    assert "nothing to do" in second.out
    status = user.run_pipeline("status", "--json")
    assert status.json["job"]["state"] == "succeeded"


@pytest.mark.ssh
@pytest.mark.parametrize("config", ["tiny", "plain"])
def test_verify_alone_leaves_the_host_byte_identical(user: User, sshd: Sshd, config: str) -> None:
    write_plain_project(user.project)
    user.write_host_file("titan", sshd)
    (sshd.home / "mine.txt").write_text("the host's own\n")
    before = tree_of(sshd.home)
    result = user.run_pipeline("verify", "--host", "titan", "--config", config, "--json")
    assert result.code == 0, result.err + result.out
    assert result.states == dict.fromkeys(STAGES, "pending")
    checks = {finding["check"]: finding["severity"] for finding in result.json["findings"]}
    for seen in ("trainable-dtype", "loss-finite", "adapter-gradient", "adapter-moves"):
        assert checks[seen] == "info", checks
    assert tree_of(sshd.home) == before


def test_a_command_typed_again_after_another_one_of_the_same_config_has_nothing_to_do(user: User) -> None:
    """Each `--set` has its own proof, and the report of a run shows the proof of that run."""
    write_waiting_project(user).go()
    first = ("run", "--host", "one", "--config", "plain", "--json")
    second = (*first, "--set", "env.LEVEL=two")
    runs = [user.run_pipeline(*words) for words in (first, second)]
    assert [run.code for run in runs] == [0, 0], runs[0].err + runs[1].err
    assert runs[0].json["run"] != runs[1].json["run"]
    for words in (first, second, first):
        again = user.run_pipeline(*words)
        assert (again.code, again.states) == (0, dict.fromkeys(STAGES, "skipped")), again.out
    page = user.project / ".halfstep" / "runs" / runs[0].json["run"] / "report.html"
    before = page.read_bytes()
    refused = user.run_pipeline(*first, "--set", "env.LEVEL=three", "--resume", runs[0].json["run"])
    assert refused.code == 2 and "nothing to resume" in refused.out
    assert page.read_bytes() == before
