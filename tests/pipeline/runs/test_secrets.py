"""A secret that a run needs has a value in the local environment."""

from __future__ import annotations

import pytest

from pipeline.config.host_model import HostConfig
from pipeline.config.model import RunConfig
from pipeline.runs.secrets import judge_secrets, require_secrets
from remote.errors import BadUsage
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Severity

NAME = "SERVICE_TOKEN"
HOST = HostConfig(host="local")
RUN = RunConfig(command=("python", "train.py"), secrets=(NAME,))


@pytest.mark.parametrize(("value", "state"), [(None, "not set"), ("", "empty")])
def test_a_missing_or_empty_secret_is_refused(monkeypatch: pytest.MonkeyPatch, value: str | None, state: str) -> None:
    monkeypatch.delenv(NAME, raising=False)
    if value is not None:
        monkeypatch.setenv(NAME, value)
    with pytest.raises(BadUsage, match=f"`secrets:` lists {NAME}, which is {state} in the local environment") as caught:
        require_secrets(HOST, RUN)
    assert caught.value.hint == f"export {NAME}=..."


def test_several_missing_secrets_share_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)
    monkeypatch.setenv("OTHER_TOKEN", "")
    run = RunConfig(command=("python", "train.py"), secrets=(NAME, "OTHER_TOKEN"))
    [warning] = judge_secrets(HOST, run)
    assert warning.message == (
        f"`secrets:` lists {NAME}, OTHER_TOKEN, which are empty or not set in the local environment"
    )


def test_a_secret_with_a_value_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "swordfish")
    require_secrets(HOST, RUN)
    assert judge_secrets(HOST, RUN) == ()


def test_plan_warns_of_a_missing_secret_and_the_proof_of_verify_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)
    [warning] = judge_secrets(HOST, RUN)
    [error] = judge_secrets(HOST, RUN, Severity.ERROR)
    assert (warning.severity, warning.exit_code) == (Severity.WARNING, ExitCode.OK)
    assert (error.severity, error.exit_code) == (Severity.ERROR, ExitCode.USAGE)
