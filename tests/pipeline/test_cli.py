"""The exit codes and messages of the command line after Ctrl-C, broken pipes and defects."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from pipeline.cli.commands import VERBS
from pipeline.cli.group import command
from pipeline.cli.main import run
from pipeline.cli.verb import GROUPS
from remote.protocol.exits import ExitCode

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            ["export", "-c", "tiny"],
            "Missing argument '{sky|dstack}'. Choose from: sky, dstack",
            "pipeline export --help",
        ),
        (
            ["verify", "-c", "tiny", "--host="],
            "Missing option '--host'.",
            "pipeline verify --host NAME -c tiny --json   (pipeline hosts lists them)",
        ),
        (
            ["run", "-c", "long"],
            "Missing option '--host'.",
            "pipeline run --host NAME -c long --json   (pipeline hosts lists them)",
        ),
        (
            ["run", "--config", "long", "--host="],
            "Missing option '--host'.",
            "pipeline run --host NAME --config long --json   (pipeline hosts lists them)",
        ),
        (["resume"], "no such command: 'resume'", "pipeline run --resume RUN"),
        (["compare", "a", "b"], "no such command: 'compare'", "pipeline report RUN OTHER_RUN"),
        (["clean"], "no such command: 'clean'", "pipeline docs machines"),
        (["stauts", "tiny"], "no such command: 'stauts'; did you mean status?", "pipeline status tiny --json"),
        (["qqqq"], "no such command: 'qqqq'", "pipeline --help"),
        (
            ["run", "--host", "local", "-c", "tiny", "--set", "train.lr=1e-5"],
            "train.lr: unknown key; did you mean learning_rate?",
            "pipeline run --host local -c tiny --set train.learning_rate=1e-5 --json",
        ),
        (
            ["run", "--host", "local", "-c", "tiny", "--set", "lora.r"],
            "--set expects a.b=c, got 'lora.r'",
            "pipeline run --host local -c tiny --set lora.r=VALUE --json",
        ),
        (
            ["plan", "--host", "local", "-c", "zzzz"],
            "there is no config 'zzzz' in configs/ or among the configs that come with halfstep",
            "pipeline init --config zzzz",
        ),
        (["fix", "train.py", "--diff"], "train.py is not a folder", "pipeline fix . --diff --json"),
    ],
)
def test_a_usage_error_is_one_line_with_a_command_to_type(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
    hint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*words, "--json"]) == ExitCode.USAGE
    [finding] = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["message"].removeprefix(f"{tmp_path}/"), finding["hint"]) == (message, hint)


class Impatient(io.RawIOBase):
    """A standard input whose user presses Ctrl-C."""

    buffer = property(lambda self: self)

    def read(self, size: int = -1) -> bytes:
        raise KeyboardInterrupt


def test_BI_60_ctrl_c_prints_one_object_with_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Impatient())
    assert run(["diagnose", "-", "--json"]) == 130
    answer = json.loads(capsys.readouterr().out)
    assert (answer["command"], answer["exit_code"], answer["ok"]) == ("diagnose", 130, False)
    assert answer["findings"][0]["hint"] == "pipeline diagnose - --json"


def test_BI_60_ctrl_c_prints_one_line_on_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Impatient())
    assert run(["diagnose", "-"]) == 130
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "interrupted" in captured.err


IMPATIENT = """
import importlib.abc, os, runpy, signal, sys

class PressesCtrlC(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == at:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
at, *sys.argv[1:] = sys.argv[1:]
sys.meta_path.insert(0, PressesCtrlC())
runpy.run_module("pipeline", run_name="__main__")
"""


def typed(*words: str, shell: str = "", program: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command as a program, with its streams redirected by a shell."""
    argv = [sys.executable, *(["-c", program] if program else ["-m", "pipeline"]), *words]
    line = f"exec {shlex.join(argv)} {shell}"
    return subprocess.run(["sh", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


INSTALLED = "import halfstep_cli; halfstep_cli.main()"


def test_SE_24_packages_of_the_project_with_our_names_do_not_replace_ours(tmp_path: Path) -> None:
    for name in ("pipeline", "fixers", "remote"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the project was imported')")
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["pipeline"] == "halfstep_cli:main"
    done = subprocess.run(
        [sys.executable, "-P", "-c", INSTALLED, "list", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == "" and json.loads(done.stdout)["command"] == "list"


@pytest.mark.parametrize("module", ["pipeline.cli.main", "click", "pipeline.verbs.list_runs", "rich.console"])
def test_SE_23_ctrl_c_while_the_command_loads_is_reported(module: str) -> None:
    """Whatever module is being imported, no traceback is printed."""
    done = typed(module, "list", "--json", program=IMPATIENT)
    assert (done.returncode, done.stderr) == (130, ""), done.stderr
    assert json.loads(done.stdout)["findings"][0]["check"] == "interrupted"


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["export", "sky"], "--config"),
        (["export", "dstack", "--gpu", "T4"], "--config"),
        (["verify"], "--host"),
        (["verify", "--host", "local"], "--config"),
        (["run"], "--host"),
        (["run", "--host", "local"], "--config"),
    ],
)
def test_a_missing_option_is_named_with_its_command(
    capsys: pytest.CaptureFixture[str], words: list[str], option: str
) -> None:
    assert run([*words, "--json"]) == 2
    [finding] = json.loads(capsys.readouterr().out)["findings"]
    assert finding["check"] == "bad-usage"
    assert finding["hint"].startswith(f"pipeline {words[0]} {option} NAME {' '.join([*words[1:], '--json'])}   (")
    assert finding["message"].startswith("Missing option '") and option in finding["message"]


def test_the_error_of_a_missing_host_names_the_hosts_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "configs" / "hosts").mkdir(parents=True)
    for name in ("small", "titan"):
        (tmp_path / "configs" / "hosts" / f"{name}.yaml").write_text("host: localhost\n")
    monkeypatch.chdir(tmp_path)
    assert run(["run", "--config", "tiny", "--json"]) == 2
    [finding] = json.loads(capsys.readouterr().out)["findings"]
    assert finding["hint"] == "pipeline run --host NAME --config tiny --json   (of this project: small, titan)"


def test_no_command_starts_without_an_option_that_its_help_calls_required(capsys: pytest.CaptureFixture[str]) -> None:
    required = {
        name: [option.opts[0] for option in verb.params if isinstance(option, click.Option) and option.required]
        for name, verb in VERBS.items()
    }
    assert {name for name, options in required.items() if options} == {"verify", "export"}
    for name in ("verify", "export"):
        assert run([name, *(["sky"] if name == "export" else []), "--json"]) == 2
        assert json.loads(capsys.readouterr().out)["findings"][0]["check"] == "bad-usage"


def test_without_arguments_the_verbs_are_listed_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line[:-1] for line in printed if line.endswith(":") and line[:-1] in GROUPS] == list(GROUPS)
    assert {line.split()[0] for line in printed if line.startswith("  ")} >= set(VERBS)
    assert {verb.group for verb in VERBS.values()} == set(GROUPS)


@pytest.mark.parametrize("name", ["", *VERBS])
def test_help_fits_60_columns(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert run([name, "--help"] if name else ["--help"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 60] == []


@pytest.mark.parametrize(
    ("words", "shell", "code"),
    [
        (("explain", "--json"), ">&-", 0),
        (("explain", "tokenizer"), ">&- 2>&-", 0),
        (("explain", "nothing-at-all"), "<&- >&- 2>&-", 2),
        (("explain",), ">/dev/full", 22),
        (("--help",), ">/dev/full", 22),
        (("explain", "sync", "--json"), ">/dev/full", 22),
        (("explain", "nothing-at-all"), "2>/dev/full", 2),
    ],
)
def test_a_closed_or_full_output_stream_does_not_change_the_exit_code(
    words: tuple[str, ...], shell: str, code: int
) -> None:
    done = typed(*words, shell=shell)
    assert (done.returncode, "Traceback" in done.stderr, "ignored" in done.stderr) == (code, False, False), done.stderr
    if shell == ">/dev/full":
        assert "no space left on device" in done.stderr


@pytest.mark.parametrize("name", VERBS)
def test_the_table_of_verbs_and_each_verbs_function_take_the_same_parameters(name: str) -> None:
    module = VERBS[name].module or name
    function = getattr(importlib.import_module(f"pipeline.verbs.{module}"), module)
    typed = [param.name for param in command(name).params if param.expose_value]
    if connects := VERBS[name].connects:
        typed = ["selection", "pending", *(["others", "more"] if connects.several else []), *typed[3:]]
    assert typed == list(inspect.signature(function).parameters)


@pytest.mark.parametrize(
    ("verb", "usage"),
    [
        ("hosts", "Usage: pipeline hosts [OPTIONS] [check NAME]"),
        ("report", "Usage: pipeline report [OPTIONS] [RUN]..."),
        ("explain", "Usage: pipeline explain [OPTIONS] [NAME]"),
        ("diagnose", "Usage: pipeline diagnose [OPTIONS] [FILE|RUN|-]"),
    ],
)
def test_the_usage_of_a_verb_is_what_can_be_typed(verb: str, usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    run([verb, "--help"])
    assert capsys.readouterr().out.splitlines()[0] == usage
