"""~/.ssh/config without OpenSSH: parsed by paramiko, with a warning for what paramiko does not support."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import paramiko

from remote.errors import BadUsage
from remote.link.address import Hop
from remote.link.ssh.options import Options, home

IGNORED = ("include", "match")


def read_plain_config(environment: Mapping[str, str]) -> tuple[paramiko.SSHConfig, tuple[str, ...]]:
    """Return the configuration, and a warning for each directive in it that has no effect."""
    path = Path(environment.get("HALFSTEP_SSH_CONFIG") or home(environment) / ".ssh/config")
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return paramiko.SSHConfig(), ()
    used = {line.split()[0].lower() for line in text.splitlines() if line.split()}
    warnings = [f"without OpenSSH, {word.capitalize()} in {path} has no effect" for word in IGNORED if word in used]
    kept = [line for line in text.splitlines() if not line.strip().lower().startswith("include")]
    if "match" in used:
        # paramiko takes an unknown Match for one that matches every host, so the block is removed.
        kept = _without_matches(kept)
    try:
        return paramiko.SSHConfig.from_text("\n".join(kept)), tuple(warnings)
    except (paramiko.ConfigParseError, ValueError) as error:
        raise BadUsage(f"invalid {path}: {error}", where=str(path)) from None


def _without_matches(lines: list[str]) -> list[str]:
    kept: list[str] = []
    inside = False
    for line in lines:
        word = (line.split() or [""])[0].lower()
        inside = word == "match" or (inside and word != "host")
        if not inside:
            kept.append(line)
    return kept


def plain_options(config: paramiko.SSHConfig, hop: Hop) -> Options:
    """Return the options of a hop, in the form of `ssh -G`."""
    found = config.lookup(hop.host)
    options: dict[str, tuple[str, ...]] = {}
    for key, value in found.items():
        options[key] = tuple(value) if isinstance(value, list) else (str(value),)
    return options
