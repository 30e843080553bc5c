"""The secrets of a host and a run, with their values from the local environment."""

from __future__ import annotations

import os

from pipeline.config.host_model import HostConfig
from pipeline.config.model import RunConfig
from remote.errors import BadUsage


def secrets_of(host: HostConfig, run: RunConfig) -> tuple[str, ...]:
    """Return the names of the secrets of a job."""
    return tuple(dict.fromkeys((*host.secrets, *run.secrets)))


def secret_values(host: HostConfig, run: RunConfig) -> dict[str, str]:
    """Return the values of the secrets that are set in the local environment, by name."""
    return {name: os.environ[name] for name in secrets_of(host, run) if name in os.environ}


def require_secrets(host: HostConfig, run: RunConfig) -> None:
    """Raise BadUsage if a secret is not set, or empty, in the local environment."""
    missing = [secret for secret in secrets_of(host, run) if not os.environ.get(secret)]
    if missing:
        state = "is empty" if missing[0] in os.environ else "not set"
        raise BadUsage(
            f"{', '.join(missing)}: listed under secrets: but {state} in the local environment",
            where="secrets",
            hint=f"export {missing[0]}=...",
        )
