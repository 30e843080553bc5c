"""Read the ssh options of one hop from `ssh -G`."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from remote.errors import BadUsage, CannotConnect
from remote.link.address import Hop
from remote.project.user_folder import account_home, home
from remote.protocol.shell import shell_command
from remote.protocol.text import file_lines

SSH_G_TIMEOUT_S = 10.0
Options = Mapping[str, tuple[str, ...]]
"""The options of ssh, with lower-case keys. An option that occurs on several lines has several values."""


def read_ssh_options(ssh: str, hop: Hop, environment: Mapping[str, str]) -> Options:
    """Run `ssh -G` for a hop and return its options. The config file is HALFSTEP_SSH_CONFIG, or .ssh/config in HOME."""
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
        command = shell_command("ssh -G {}", hop.host)
        raise CannotConnect(
            f"`{command}` timed out after {SSH_G_TIMEOUT_S:.0f} s: a `Match exec` in ~/.ssh/config may hang",
            where="~/.ssh/config",
        ) from None
    if done.returncode != 0:
        message = done.stderr.decode("utf-8", "replace").strip()
        raise BadUsage(f"invalid ssh configuration: {message}", where="~/.ssh/config")
    return parse_options(done.stdout.decode("utf-8", "surrogateescape"))


def _config_file(environment: Mapping[str, str]) -> list[str]:
    path = environment.get("HALFSTEP_SSH_CONFIG")
    if path:
        return ["-F", path]
    folder = home(environment)
    if str(folder) == account_home():
        return []
    config = folder / ".ssh/config"
    return ["-F", str(config) if config.is_file() else "none"]


def parse_options(text: str) -> Options:
    """Parse the output of `ssh -G`."""
    options: dict[str, tuple[str, ...]] = {}
    for line in file_lines(text):
        key, _, value = line.partition(" ")
        if value:
            options[key.lower()] = (*options.get(key.lower(), ()), value)
    return options
