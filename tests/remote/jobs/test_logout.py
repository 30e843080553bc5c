"""FI-41: if a logout kills processes, a job continues under the user's service manager."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.systemd import Systemd, why_no_systemd

START = """
from remote.operations.jobs import start_job
from remote.link.local import local_host
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobSpec
host = local_host("~/halfstep")
spec = JobSpec("run-1", {number}, "f", ("sh", "-c", "echo $TOKEN; sleep 600"), secrets=("TOKEN",), grace_s=5.0)
answer = start_job(host, StartRequest("p-1", spec, secrets={{"TOKEN": "secret"}}, backend={backend!r}))
print(answer.started.backend)
host.close()
"""

LOOK = """
import json
from remote.operations.jobs import stop_job, take_survey
from remote.link.local import local_host
from remote.protocol.survey import SurveyRequest
from remote.protocol.values import encode
host = local_host("~/halfstep")
if {stop}:
    stop_job(host, "p-1", "run-1")
survey = take_survey(host, SurveyRequest("p-1", "python3"))
print(json.dumps(encode(survey.runs[-1])))
host.close()
"""


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Systemd]:
    if reason := why_no_systemd():
        pytest.skip(reason)
    lab = Systemd(tmp_path / "systemd")
    try:
        yield lab.start()
    finally:
        lab.close()


@pytest.mark.root
def test_FI_41_a_job_survives_the_last_logout_if_logind_kills_remaining_processes(container: Systemd):
    assert container.login(START.format(number=1, backend="setsid")).strip() == "setsid"
    killed = json.loads(container.login(LOOK.format(stop=False)))
    assert killed["state"] == "failed", "logind must really have killed, or this proves nothing"
    assert "SIGTERM" in killed["result"]["reason"]
    assert container.login(START.format(number=2, backend="auto")).strip() == "systemd"
    alive = json.loads(container.login(LOOK.format(stop=False)))
    assert (alive["job"], alive["state"]) == (2, "running")
    stopped = json.loads(container.login(LOOK.format(stop=True)))
    assert stopped["result"]["stopped"] is True
