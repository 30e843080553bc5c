"""A path that exists on the laptop only is reported with file and line before anything runs on the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.user import CommandResult, User
from tests.lab.sshd import Sshd

TRAIN = """\
from pathlib import Path
import argparse, json
p = argparse.ArgumentParser()
p.add_argument("--model", default="/Users/me/models/phi-4")
p.add_argument("--rows", default="rows.json")
args = p.parse_args()
Path("started").write_text("yes")
rows = json.load(open(Path("~/corpus/rows.json").expanduser()))
print(args.model, len(rows))
"""


@pytest.fixture
def project(user: User, sshd: Sshd) -> User:
    """A script that reads its data from the user's home, which the host does not have."""
    (user.project / "train.py").write_text(TRAIN)
    (user.home / "corpus").mkdir()
    (user.home / "corpus" / "rows.json").write_text("[1]")
    user.write_host_file("titan", sshd)
    config(user, "[python, train.py]")
    return user


def config(user: User, command: str, more: str = "") -> Path:
    path = user.project / "configs" / "plain.yaml"
    path.write_text(f"project: .\ncommand: {command}\n{more}")
    return path


def looks(user: User, verb: str, *words: str) -> CommandResult:
    return user.run_pipeline(verb, "--host", "titan", "--config", "plain", *words, "--json")


def path_findings(result: CommandResult) -> list[tuple[str, str]]:
    found = [one for one in result.json["findings"] if one["check"] == "laptop-path"]
    return sorted((Path(one["where"]).name, one["severity"]) for one in found)


BOTH = [("train.py:4", "warning"), ("train.py:8", "error")]


def test_plan_verify_and_run_name_the_place_and_run_sends_and_starts_nothing(project: User, sshd: Sshd) -> None:
    for result in (looks(project, "plan"), looks(project, "verify"), looks(project, "run")):
        assert path_findings(result) == BOTH, result.err
        assert (result.code, result.json["ok"]) == (20, False)
    assert not list(sshd.home.rglob("train.py")), "not even sent"
    assert not list(sshd.home.rglob("started")), "not even for a proof"
    (finding,) = (one for one in result.json["findings"] if one["where"] == "train.py:8")
    assert "~/corpus" in finding["message"] and f"data: {{path: {project.home}/corpus" in finding["hint"]


def test_a_settings_file_that_git_ignores_is_reported_before_anything_is_sent(project: User, sshd: Sshd) -> None:
    (project.project / "train.py").write_text("import sys, torch\nprint(open(sys.argv[2]).read())\n")
    (project.project / "config").mkdir()
    (project.project / "config" / "config.yaml").write_text("lr: 1\n")
    (project.project / ".gitignore").write_text("config/*\n")
    config(project, "[python, train.py, -c, config/config.yaml]")
    for result in (looks(project, "plan"), looks(project, "verify"), looks(project, "run")):
        assert path_findings(result) == [("plain.yaml:2", "error")], result.err
        assert result.code == 20
        (finding,) = (one for one in result.json["findings"] if one["check"] == "laptop-path")
        assert finding["hint"] == "write the line !/config/config.yaml into .pipelineignore"
    assert not list(sshd.home.rglob("train.py"))


def test_a_path_that_exists_on_the_host_causes_no_finding(project: User, sshd: Sshd) -> None:
    (sshd.home / "corpus").mkdir()
    (sshd.home / "corpus" / "rows.json").write_text("[1]")
    config(project, "[python, train.py, --model, org/phi-4]")
    assert path_findings(looks(project, "verify", "--no-proof")) == []


def test_each_word_of_the_configs_command_is_checked_for_paths(project: User) -> None:
    (project.project / "train.py").write_text("args = parse()\nrows = open(args.manifest)\nsave(args.out)\n")
    path = config(
        project,
        '["python", "train.py", "--manifest=~/corpus", "--out", "/Users/me/runs"]',
        "env: {HF_HOME: /Users/me/hf}\n",
    )
    result = looks(project, "verify", "--no-proof")
    assert path_findings(result) == [
        (f"{path.name}:2", "error"),
        (f"{path.name}:2", "warning"),
        (f"{path.name}:3", "warning"),
    ]


def test_plan_does_not_fail_for_a_path_that_the_script_may_only_write(project: User) -> None:
    (project.project / "train.py").write_text("args = parse()\nsave(args.out)\n")
    config(project, '["python", "train.py", "--out", "/Users/me/runs"]')
    planned = looks(project, "plan")
    assert (path_findings(planned), planned.code) == ([("plain.yaml:2", "warning")], 0), planned.err


def test_a_model_of_the_built_in_trainer_may_be_a_folder_of_the_host(project: User, sshd: Sshd) -> None:
    config(project, "null", "model: {id: ~/corpus}\ndata: {dataset: tiny-speech}\n")
    assert path_findings(looks(project, "plan")) == [("plain.yaml:3", "error")]
    (sshd.home / "corpus").mkdir()
    planned = looks(project, "plan")
    assert (path_findings(planned), planned.code) == ([], 0), planned.err
