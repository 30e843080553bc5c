"""The secrets of a host and a run, with their values from the local environment."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from fixers.sources.by_content import by_content
from pipeline.config.document import parse_document, read_config
from pipeline.config.find import list_configs, list_hosts
from pipeline.config.host_model import HostConfig
from pipeline.config.model import RunConfig
from pipeline.config.read_limit import beyond_limit
from remote.errors import BadUsage, HalfstepError
from remote.project.user_folder import sign
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.hidden import hide
from remote.protocol.shell import shell_command


def secrets_of(host: HostConfig, run: RunConfig) -> tuple[str, ...]:
    """Return the names of the secrets of a job."""
    return tuple(dict.fromkeys((*host.secrets, *run.secrets)))


def secret_values(host: HostConfig, run: RunConfig) -> dict[str, str]:
    """Return the values of the secrets that are set in the local environment, by name."""
    return {name: os.environ[name] for name in secrets_of(host, run) if name in os.environ}


def hmac_input(value: str) -> bytes:
    """Return the data that is signed for a secret.

    No record begins with the same bytes, so the HMAC of a record is never that of a secret.
    """
    return b"secret\0" + os.fsencode(value)


def secret_marks(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the HMAC of the value of each variable that is set, by name, or {} if the user's key is not usable.

    With these, a later command recognises a variable that has another value than when the job was started.
    """
    values = {name: os.environ[name] for name in names if name in os.environ}
    with contextlib.suppress(OSError):
        return {name: (sign(hmac_input(value)),) for name, value in values.items()}
    return {}


def hide_project_secrets(cwd: Path, more: Iterable[str] = ()) -> int:
    """Mask the values of secrets listed in the project's host files and configs, or in `more`, if they are set.

    Return the number of files that were not read because of the limits on their number and size.
    """
    names = set(more)
    paths = (*list_hosts(cwd).values(), *list_configs(cwd).values())
    beyond = beyond_limit(paths)
    for path in paths:
        if path not in beyond:
            with contextlib.suppress(HalfstepError, OSError):
                names.update(_listed_secrets(read_config(path)))
    hide(os.environ.get(name, "") for name in names)
    return len(beyond)


@by_content
def _listed_secrets(config: bytes) -> tuple[str, ...]:
    try:
        listed = parse_document("", config).values.get("secrets")
    except HalfstepError:
        return ()
    return tuple(name for name in (listed if isinstance(listed, list) else ()) if isinstance(name, str))


def judge_secrets(host: HostConfig, run: RunConfig, severity: Severity = Severity.WARNING) -> tuple[Finding, ...]:
    """Return a finding if a secret is not set, or empty, in the local environment."""
    missing = [secret for secret in secrets_of(host, run) if not os.environ.get(secret)]
    if not missing:
        return ()
    empty = [secret for secret in missing if secret in os.environ]
    state = ("empty or not set" if empty != missing else "empty") if empty else "not set"
    verb = "is" if len(missing) == 1 else "are"
    message = f"`secrets:` lists {', '.join(missing)}, which {verb} {state} in the local environment"
    code = ExitCode.USAGE if severity is Severity.ERROR else ExitCode.OK
    return (Finding("secret-missing", severity, message, "secrets", shell_command("export {}=...", missing[0]), code),)


def require_secrets(host: HostConfig, run: RunConfig) -> None:
    """Raise BadUsage if a secret is not set, or empty, in the local environment."""
    for finding in judge_secrets(host, run):
        raise BadUsage(finding.message, where=finding.where, hint=finding.hint)
