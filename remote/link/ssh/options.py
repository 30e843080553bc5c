"""What ssh's configuration says about one hop, however it was read."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping
from pathlib import Path

from remote.errors import BadUsage, CannotConnect
from remote.link.address import Hop

SSH_G_TIMEOUT_S = 10.0
Options = Mapping[str, tuple[str, ...]]
"""ssh's options, keys in lower case; one that stands on several lines has several values."""


def home(environment: Mapping[str, str]) -> Path:
    """The home folder: HOME where it is set, else the account's."""
    return Path(environment.get("HOME") or account_home() or "/")


def account_home() -> str:
    """The home the account is entered with; empty where the user id has no account, as in some containers."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def ask_ssh(ssh: str, hop: Hop, environment: Mapping[str, str]) -> Options:
    """What `ssh -G` says about a hop. HOME decides which ~/.ssh/config is read; HALFSTEP_SSH_CONFIG names another."""
    argv = [ssh, "-G", *_config_file(environment)]
    if hop.user:
        argv += ["-l", hop.user]
    if hop.port:
        argv += ["-p", str(hop.port)]
    try:
        done = subprocess.run(
            [*argv, "--", hop.host],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=SSH_G_TIMEOUT_S,
            check=False,
            env=dict(environment),
        )
    except subprocess.TimeoutExpired:
        raise CannotConnect(
            f"`ssh -G {hop.host}` did not answer in {SSH_G_TIMEOUT_S:.0f} s: a `Match exec` in ~/.ssh/config hangs",
            where="~/.ssh/config",
        ) from None
    if done.returncode != 0:
        words = done.stderr.decode("utf-8", "replace").strip()
        raise BadUsage(f"ssh does not understand its configuration: {words}", where="~/.ssh/config")
    return parse_options(done.stdout.decode("utf-8", "surrogateescape"))


def _config_file(environment: Mapping[str, str]) -> list[str]:
    named = environment.get("HALFSTEP_SSH_CONFIG")
    if named:
        return ["-F", named]
    here = home(environment)
    if str(here) == account_home():
        return []
    theirs = here / ".ssh/config"
    return ["-F", str(theirs) if theirs.is_file() else "none"]


def parse_options(text: str) -> Options:
    """`ssh -G`'s lines as a mapping."""
    options: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if value:
            options[key.lower()] = (*options.get(key.lower(), ()), value)
    return options
