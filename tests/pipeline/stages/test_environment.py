"""Results of the stage `environment` if the config asks for an environment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.records.inputs import Inputs
from pipeline.runs.fixes import unparsable_sources
from pipeline.stages.environment import Environment
from pipeline.stages.runner import run_stages
from pipeline.stages.stage import Context
from remote.project.scan import scan_project
from remote.protocol.environment import EnvironmentFacts
from remote.protocol.exits import ExitCode
from remote.protocol.values import encode
from tests.lab.fake_host import FakeHost
from tests.pipeline.listeners import NoListener
from tests.pipeline.views import view_of


def test_the_screen_shows_the_environment_as_installed(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    with_torch = view.survey
    bare = replace(with_torch, interpreter=replace(with_torch.interpreter, version=(), torch=None, error="not there"))
    facts = EnvironmentFacts(with_torch.interpreter, with_torch.disk)
    host = FakeHost(operations={"environment.probe": lambda _: encode(facts)})
    context = Context(host, view.with_survey(bare), NoListener())

    def look(context: Context) -> None:
        context.view = context.view.with_survey(with_torch, seen_unix=20.0)

    ran = run_stages(context, [Environment()], tmp_path / "record.json", look)
    assert ran.stages[0].reason == "Python 3.11.2, torch 2.13.0, no card"
    assert ran.findings == [], "a survey that is old by now says nothing about clocks"


@pytest.mark.parametrize(("seen_unix", "skew"), [(0.0, None), (59.0, None), (208.0, "-208 s"), (-90.0, "+90 s")])
def test_clocks_are_compared_at_the_moment_of_the_survey(tmp_path: Path, seen_unix: float, skew: str | None) -> None:
    view = view_of(tmp_path)
    report = Environment().check(view.with_survey(view.survey, seen_unix))
    assert [finding.message.split("clock is ")[1].split(" off")[0] for finding in report.findings] == (
        [skew] if skew else []
    )


def test_the_reason_why_no_environment_can_be_made_is_the_first_finding(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    view = replace(view, loaded=load_config("plain", tmp_path, ["fixers.environment=create"]))
    python = replace(view.survey.interpreter, torch=None)
    view = view.with_survey(replace(view.survey, interpreter=python))
    facts = EnvironmentFacts(python, view.survey.disk, imports={"torch": "No module named 'torch'"})
    host = FakeHost(operations={"environment.probe": lambda _: encode(facts)})
    errors = Environment().run(Context(host, view, NoListener())).report.errors
    assert errors[0].message == "/usr/bin/python3 is outside the project, so no venv is created there"
    assert errors[0].hint == "python: venv/bin/python in the host file"
    assert len({finding.message for finding in errors}) == len(errors) > 1


def _without_torch(root: Path, script: str, setting: str = "create") -> tuple[Context, FakeHost]:
    """Return a host on which no interpreter has torch, and a config that requests an environment."""
    view = view_of(root)
    (root / "train.py").write_text(script)
    loaded = load_config("plain", root, [f"fixers.environment={setting}"])
    host_file = replace(view.host, config=view.host.config.model_copy(update={"host": "box"}))
    python = replace(view.survey.interpreter, torch=None)
    survey = replace(view.survey, interpreter=python)
    view = replace(view, loaded=loaded, host=host_file, scan=scan_project(root)).with_survey(survey)
    facts = EnvironmentFacts(python, view.survey.disk, imports={"torch": "No module named 'torch'"})
    host = FakeHost(operations={"environment.probe": lambda _: encode(facts)})
    return Context(host, view, NoListener()), host


def test_no_environment_is_created_for_a_script_that_does_not_parse(tmp_path: Path) -> None:
    context, host = _without_torch(tmp_path, "from transformers import Trainer\ntrainer = Trainer(\n")
    found = Environment().run(context).report.errors
    assert [(one.check, one.where, one.exit_code) for one in found] == [
        ("unparsable-source", "train.py:2", ExitCode.FIXER)
    ]
    assert host.changes == []


def test_a_script_without_words_of_the_fixers_is_parsed_too(tmp_path: Path) -> None:
    context, host = _without_torch(tmp_path, "import torch\nprint(torch\n")
    found = Environment().run(context).report.errors
    assert [(one.message, one.where) for one in found] == [("not Python: '(' was never closed", "train.py:2")]
    assert host.changes == []


@pytest.mark.parametrize("name", ["data.json", "table.py"])
def test_a_file_of_data_does_not_stop_the_environment(tmp_path: Path, name: str) -> None:
    context, _ = _without_torch(tmp_path, "import torch\nprint(torch.bfloat16)\n")
    (tmp_path / name).write_text(f"{{'bf16': {[0] * 20_000}}}\n")
    view = replace(context.view, scan=scan_project(tmp_path))
    assert unparsable_sources(view) == ()


@pytest.mark.parametrize(("setting", "version"), [("{base: python3.99}", (3, 11)), ("create", (3, 99)), ("create", ())])
def test_syntax_that_a_newer_python_may_accept_is_not_checked(
    tmp_path: Path, setting: str, version: tuple[int, ...]
) -> None:
    context, _ = _without_torch(tmp_path, "import torch\nprint(torch\n", setting)
    interpreter = replace(context.view.survey.interpreter, version=version)
    view = context.view.with_survey(replace(context.view.survey, interpreter=interpreter))
    assert unparsable_sources(view) == ()


def test_the_error_about_missing_requirements_does_not_suggest_the_given_override(tmp_path: Path) -> None:
    context, _ = _without_torch(tmp_path, "import numpy\n")
    errors = Environment().run(context).report.errors
    assert [one.hint for one in errors] == ["write requirements.txt, one package a line: numpy", ""]


def test_new_requirements_invalidate_the_checkpoint_only_if_an_environment_is_requested(tmp_path: Path) -> None:
    def inputs_with(*overrides: str, written: str) -> Inputs:
        view = view_of(tmp_path)
        (tmp_path / "requirements.txt").write_text(written)
        loaded = load_config("plain", tmp_path, overrides)
        return Environment().inputs(replace(view, loaded=loaded, scan=scan_project(tmp_path)))

    create = "fixers.environment=create"
    assert inputs_with(create, written="six\n") == inputs_with(create, written="six\n")
    assert inputs_with(create, written="six\n") != inputs_with(create, written="idna\n")
    assert inputs_with(written="six\n") == inputs_with(written="idna\n")
