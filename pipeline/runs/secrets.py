"""The secrets of a host and a run, with their values from the local environment."""

from __future__ import annotations

import os

from pipeline.config.host_model import HostConfig
from pipeline.config.model import RunConfig
from remote.errors import BadUsage
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity


def secrets_of(host: HostConfig, run: RunConfig) -> tuple[str, ...]:
    """Return the names of the secrets of a job."""
    return tuple(dict.fromkeys((*host.secrets, *run.secrets)))


def secret_values(host: HostConfig, run: RunConfig) -> dict[str, str]:
    """Return the values of the secrets that are set in the local environment, by name."""
    return {name: os.environ[name] for name in secrets_of(host, run) if name in os.environ}


def judge_secrets(host: HostConfig, run: RunConfig, severity: Severity = Severity.WARNING) -> tuple[Finding, ...]:
    """Return a finding if a secret is not set, or empty, in the local environment."""
    missing = [secret for secret in secrets_of(host, run) if not os.environ.get(secret)]
    if not missing:
        return ()
    state = "is empty" if missing[0] in os.environ else "not set"
    message = f"{', '.join(missing)}: listed under secrets: but {state} in the local environment"
    code = ExitCode.USAGE if severity is Severity.ERROR else ExitCode.OK
    return (Finding("secret-missing", severity, message, "secrets", f"export {missing[0]}=...", code),)


def require_secrets(host: HostConfig, run: RunConfig) -> None:
    """Raise BadUsage if a secret is not set, or empty, in the local environment."""
    for finding in judge_secrets(host, run):
        raise BadUsage(finding.message, where=finding.where, hint=finding.hint)
