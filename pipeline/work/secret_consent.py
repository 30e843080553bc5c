"""Confirmation of the secrets that a project's config requests, before their values leave the laptop."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from pipeline.config.find import is_shipped_config
from pipeline.config.load import LoadedConfig
from pipeline.records.consents import consents, is_confirmed, keep_consent
from remote.errors import SecretsUntrusted
from remote.link.prompter import Prompter


def require_secret_consent(
    loaded: LoadedConfig,
    prompter: Prompter | None,
    *,
    typed: bool,
    command: str = "pipeline run",
    environment: Mapping[str, str] | None = None,
) -> None:
    """Ask the user to confirm that the config's `secrets:` may be sent to the host. Raises SecretsUntrusted.

    Otherwise a cloned project could read any variable of the user's environment unnoticed. The confirmation is stored
    in the user's configuration folder, for this file and these names. `command` is the one that asks, for the hint.
    """
    names = sorted(set(loaded.config.secrets))
    if typed or not names or is_shipped_config(loaded.path):
        return
    kept = consents("trusted_secrets", os.environ if environment is None else environment)
    line = f"{' '.join(names)}\t{loaded.path.resolve()}"
    if is_confirmed(kept, line):
        return
    words = f"{loaded.path} requests {', '.join(names)} from the local environment"
    if prompter is None or not prompter.confirm(f"{words}.\nMay the values be sent to the host?"):
        setting = f"secrets=[{','.join(names)}]"
        raise SecretsUntrusted(
            f"{words}, and you have not confirmed that; nothing was sent",
            where="secrets",
            hint=f"{command} --set {shlex.quote(setting)}",
        )
    keep_consent(kept, line)
