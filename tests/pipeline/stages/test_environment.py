"""What the stage says where an environment was asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pipeline.config.load import load_config
from pipeline.messages.listener import NoListener
from pipeline.stages.environment import Environment
from pipeline.stages.stage import Context
from remote.protocol.environment import EnvironmentFacts
from remote.protocol.values import encode
from tests.lab.fake_host import FakeHost
from tests.pipeline.views import view_of


def test_why_no_environment_can_be_made_is_told_first(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    view = replace(view, loaded=load_config("plain", tmp_path, ["fixers.environment=create"]))
    python = replace(view.survey.interpreter, torch=None)
    view = view.with_survey(replace(view.survey, interpreter=python))
    facts = EnvironmentFacts(python, view.survey.disk, imports={"torch": "No module named 'torch'"})
    host = FakeHost(operations={"environment.probe": lambda _: encode(facts)})
    told = Environment().run(Context(host, view, NoListener())).report.errors
    assert told[0].message == "/usr/bin/python3 lies outside the project, so no venv is made there"
    assert told[0].hint == "python: venv/bin/python in the host file"
    assert len({finding.message for finding in told}) == len(told) > 1
