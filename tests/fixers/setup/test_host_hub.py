"""Queries of a hub by the host: their arguments, and that each is sent once."""

import pytest

from fixers.setup.host_hub import HostHub, hub_request
from remote.errors import RemoteFault
from remote.protocol.exits import ExitCode
from remote.protocol.machine import Interpreter
from remote.protocol.tokenizer_files import HubTree
from tests.fixers.setup_rig import PROJECT, site_at, survey_of
from tests.lab.fake_host import FakeHost

RUNS = survey_of(interpreter=Interpreter("/v/bin/python"))
DOES_NOT = survey_of(interpreter=Interpreter("/v/bin/python", error="no such file"))


@pytest.mark.parametrize(("survey", "python"), [(RUNS, "/v/bin/python"), (DOES_NOT, ""), (None, "")])
def test_a_hub_request_contains_project_interpreter_and_environment(survey, python):
    assert hub_request(site_at(None, survey=survey, environment={"HF_HOME": "/hf"})) == {
        "project": PROJECT.key,
        "python": python,
        "environment": {"HF_HOME": "/hf"},
    }


def test_a_repository_is_queried_once_per_revision():
    asked = []

    def answer(args):
        asked.append((args["python"], args["repo"], args["revision"]))
        return {"commit": f"c{len(asked)}"}

    hub = HostHub(site_at(FakeHost(operations={"fix.tokenizer.hub": answer}), survey=RUNS))
    commits = [
        hub.tree(*each).commit for each in (("a/b", "x"), ("a/b", "y"), ("a/b", "x"), ("a/c", "x"), ("a/b", "y"))
    ]
    assert commits == ["c1", "c2", "c1", "c3", "c2"]
    assert asked == [("/v/bin/python", *each) for each in (("a/b", "x"), ("a/b", "y"), ("a/c", "x"))]


def test_without_an_interpreter_the_hub_is_not_queried():
    host = FakeHost()
    assert HostHub(site_at(host, survey=DOES_NOT)).tree("a/b", "") == HubTree(
        fault="no-library", message="the project's interpreter does not run, so the hub was not queried"
    )
    assert host.calls == []


def test_the_error_of_a_host_that_cannot_answer_is_quoted():
    def refuse(args):
        raise RemoteFault("no such module", kind="x", exit_code=ExitCode.BUG)

    host = FakeHost(operations={"fix.tokenizer.hub": refuse})
    assert HostHub(site_at(host, survey=RUNS)).tree("a/b", "") == HubTree(fault="no-library", message="no such module")
