"""The secrets that a host and a run name, and their values in the laptop's environment."""

from __future__ import annotations

import os

from pipeline.config.model import HostConfig, RunConfig
from remote.errors import BadUsage


def secrets_of(host: HostConfig, run: RunConfig) -> tuple[str, ...]:
    """The names of the secrets a job is given; their values come from the laptop's environment."""
    return tuple(dict.fromkeys((*host.secrets, *run.secrets)))


def secret_values(host: HostConfig, run: RunConfig) -> dict[str, str]:
    """The secrets that are in the environment here, by name."""
    return {name: os.environ[name] for name in secrets_of(host, run) if name in os.environ}


def require_secrets(host: HostConfig, run: RunConfig) -> None:
    """Every secret that is named is in the environment here. Raises BadUsage."""
    missing = [secret for secret in secrets_of(host, run) if secret not in os.environ]
    if missing:
        raise BadUsage(
            f"{', '.join(missing)}: named under secrets: and not in the environment here",
            where="secrets",
            hint=f"export {missing[0]}=...",
        )
