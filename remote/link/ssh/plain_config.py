"""Read ~/.ssh/config with paramiko if OpenSSH is not installed. Warns about unsupported directives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import paramiko

from remote.errors import BadUsage
from remote.link.address import Hop
from remote.link.ssh.config_words import ssh_words
from remote.link.ssh.options import COMMAND, PATH_LISTS, Options
from remote.project.user_folder import home
from remote.protocol.text import file_lines

IGNORED = ("include", "match")
SETTING = re.compile(r"\s*(\w+)(?:\s*=\s*|\s+)(.+)")
SEPARATOR = "\0"
OLD_NAME = "challengeresponseauthentication"


def read_plain_config(environment: Mapping[str, str]) -> tuple[paramiko.SSHConfig, tuple[str, ...]]:
    """Return the configuration, and a warning for each directive that has no effect without OpenSSH."""
    path = Path(environment.get("HALFSTEP_SSH_CONFIG") or home(environment) / ".ssh/config")
    try:
        lines = file_lines(path.read_bytes().decode("utf-8", "surrogateescape"))
    except OSError:
        return paramiko.SSHConfig(), ()
    keywords = {words[0].lower() for line in lines if (words := line.split())}
    warnings = [
        f"without OpenSSH, {keyword.capitalize()} in {path} has no effect" for keyword in IGNORED if keyword in keywords
    ]
    lines = [line for line in lines if not line.strip().lower().startswith("include")]
    if "match" in keywords:
        # paramiko applies a Match block with an unknown criterion to every host, so these blocks are removed.
        lines = _without_matches(lines)
    try:
        return paramiko.SSHConfig.from_text("\n".join(map(_with_separators, lines))), tuple(warnings)
    except (paramiko.ConfigParseError, ValueError) as error:
        raise BadUsage(f"invalid {path}: {error}", where=str(path)) from None


def _with_separators(line: str) -> str:
    """Put SEPARATOR between the words of an option that has several values: paramiko removes some of the quotes."""
    setting = SETTING.match(line)
    if not setting or setting[1].lower() not in (*PATH_LISTS, COMMAND):
        return line
    return f"{setting[1]} {SEPARATOR.join(ssh_words(setting[2], comments=setting[1].lower() != COMMAND))}"


def _without_matches(lines: list[str]) -> list[str]:
    remaining: list[str] = []
    inside = False
    for line in lines:
        word = (line.split() or [""])[0].lower()
        inside = word == "match" or (inside and word != "host")
        if not inside:
            remaining.append(line)
    return remaining


def plain_options(config: paramiko.SSHConfig, hop: Hop) -> Options:
    """Return the options of a hop in the format of `ssh -G`."""
    values = config.lookup(hop.host)
    options: dict[str, tuple[str, ...]] = {}
    for key, value in values.items():
        options[key] = tuple(value) if isinstance(value, list) else tuple(str(value).split(SEPARATOR))
    if OLD_NAME in options:
        options.setdefault("kbdinteractiveauthentication", options[OLD_NAME])
    for key, name in PATH_LISTS.items():
        path = next((path for path in options.get(key, ()) if "%" in path or "${" in path), None)
        if path is not None:
            raise BadUsage(
                f"without OpenSSH, tokens in {name} ({path}) have no effect",
                where="~/.ssh/config",
                hint="install OpenSSH, or write the path without tokens",
            )
    return options
