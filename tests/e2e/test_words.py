"""Invalid arguments, and output to something other than a terminal: the published exit code, never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_note
from tests.e2e.user import ROOT, User

TINY = ("run", "--host", "local", "--config", "tiny")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fix", "--undo", "--diff"), "cannot be combined with --diff, --check or --only"),
        ((*TINY, "--until", "sync", "--force", "train"), "--force train would redo nothing"),
        (("diagnose", "trian.log"), "neither a file nor a run"),
        (("init", "--config", "../../elsewhere"), "is not a valid name"),
        (("init", "--host", "a/b"), "is not a valid name"),
        (("report",), "no training runs yet"),
        (("hosts", "check"), "needs a host"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_an_error_and_change_nothing(user: User, words: tuple[str, ...], message: str) -> None:
    result = user.run_pipeline(*words)
    assert result.code == 2, result.out + result.err
    assert message in result.err
    assert result.out == "", "what went wrong belongs on stderr"
    assert sorted(path.name for path in user.project.iterdir()) == ["look.py", "notes.md"]


def test_a_missing_secret_is_reported_before_anything_is_sent(user: User) -> None:
    result = user.run_pipeline(*TINY, "--set", "secrets=[NOT_EXPORTED]", "--json")
    assert (result.code, result.json["findings"][0]["hint"]) == (2, "export NOT_EXPORTED=...")
    assert list((user.home / "halfstep").glob("projects/*/tree/*")) == []


@pytest.mark.parametrize("words", [("configs",), ("configs", "--json")])
def test_a_full_device_as_stdout_is_reported_as_a_full_disk(user: User, words: tuple[str, ...]) -> None:
    env = {**os.environ, "HOME": str(user.home), "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "pipeline", *words]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            argv, cwd=user.project, env=env, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
        )
    assert done.returncode == 22
    assert b"Traceback" not in done.stderr


def test_a_closed_stdout_pipe_ends_the_verb_silently(user: User) -> None:
    env = {**os.environ, "HOME": str(user.home), "PYTHONPATH": str(ROOT)}
    read, write = os.pipe()
    os.close(read)
    argv = [sys.executable, "-m", "pipeline", "explain", "tokenizer"]
    done = subprocess.run(
        argv, cwd=user.project, env=env, stdout=write, stderr=subprocess.PIPE, check=False, timeout=60
    )
    os.close(write)
    assert done.returncode == 130
    assert done.stderr == b""


def test_init_writes_a_config_that_loads_and_a_host_by_its_alias(user: User) -> None:
    (user.project / "train.py").write_text("loss.backward()\noptimizer.step()\n")
    result = user.run_pipeline("init", "--host", "my-rig", "--config", "first", "--json")
    assert result.code == 0, result.err
    assert [Path(path).name for path in result.json["written"]] == ["first.yaml", "my-rig.yaml"]
    hosts = {row["name"]: row["reaches"] for row in user.run_pipeline("hosts", "--json").json["hosts"]}
    assert hosts["my-rig"] == "my-rig"
    plan = user.run_pipeline("plan", "--config", "first", "--card", "7.5", "--json")
    assert plan.code == 0, plan.out


def test_without_a_terminal_each_table_row_is_one_line(user: User) -> None:
    out = user.run_pipeline("configs").out.splitlines()
    assert len(out) == 1 + len(json.loads(user.run_pipeline("configs", "--json").out)["configs"])
    assert all(line == line.rstrip() for line in out)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("pipeline ver", {"verify"}),
        ("pipeline run --until ver", {"verify"}),
        ("pipeline run --config tiny_", {"tiny_qwen2audio"}),
        ("pipeline plan --host lo", {"local", "lonely-rig"}),
        ("pipeline hosts check lo", {"local", "lonely-rig"}),
        ("pipeline fix --card rtx-409", {"rtx-4090"}),
        ("pipeline diagnose pla", {"plain-0011aabb"}),
        ("pipeline fix --only trainable", {"trainable-fp32"}),
        ("pipeline explain trainable-fp", {"trainable-fp32"}),
    ],
)
def test_names_complete_in_the_shell(user: User, typed: str, offered: set[str]) -> None:
    (user.home / ".ssh").mkdir()
    (user.home / ".ssh" / "config").write_text("Host lonely-rig *.lab\n")
    write_note(Records(user.project), RunNote("plain-0011aabb", "titan", "plain", "key", created_unix=1.0))
    user.environment.update(
        {"_PIPELINE_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    )
    assert {line.partition(",")[2] for line in user.run_pipeline().out.split()} == offered
