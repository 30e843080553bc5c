"""Read the ssh options of one hop from `ssh -G`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from remote.errors import BadUsage, CannotConnect
from remote.link.address import Hop
from remote.link.ssh.aliases import reads_system_config
from remote.link.ssh.config_words import split_paths, ssh_words
from remote.project.user_folder import account_home, home
from remote.protocol.shell import shell_command
from remote.protocol.text import file_lines

SSH_G_TIMEOUT_S = 10.0
PATH_LISTS = {
    "userknownhostsfile": "UserKnownHostsFile",
    "globalknownhostsfile": "GlobalKnownHostsFile",
    "revokedhostkeys": "RevokedHostKeys",
}
"""The options that name several files on one line."""
COMMAND = "knownhostscommand"
Options = Mapping[str, tuple[str, ...]]
"""The options of ssh, with lower-case keys. An option on several lines, with several paths, or with the words of a
command has several values."""


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
    return _with_paths(parse_options(done.stdout.decode("utf-8", "surrogateescape")), home(environment))


def _config_file(environment: Mapping[str, str]) -> list[str]:
    path = environment.get("HALFSTEP_SSH_CONFIG")
    if path:
        return ["-F", path]
    if reads_system_config(environment):
        return []
    config = home(environment) / ".ssh/config"
    return ["-F", str(config) if config.is_file() else "none"]


def parse_options(text: str) -> Options:
    """Parse the output of `ssh -G`."""
    options: dict[str, tuple[str, ...]] = {}
    for line in file_lines(text):
        key, _, value = line.partition(" ")
        if value:
            options[key.lower()] = (*options.get(key.lower(), ()), value)
    return options


def _with_paths(options: Options, folder: Path) -> Options:
    """Return the options with one value per path and per word of the command. Raises BadUsage."""

    def is_file(path: str) -> bool:
        return os.path.isfile(expand_home(path, folder))  # noqa: PTH113 (False also in an unreadable folder)

    found = dict(options)
    for key, name in PATH_LISTS.items():
        found.update({key: split_paths(" ".join(options[key]), name, is_file)} if key in options else {})
    if COMMAND in options:
        try:
            found[COMMAND] = tuple(ssh_words(" ".join(options[COMMAND])))
        except ValueError as error:
            raise BadUsage(f"invalid KnownHostsCommand: {error}", where="~/.ssh/config") from None
    return found


def expand_home(path: str, folder: Path) -> str:
    """Expand ~ to `folder`, the value of HOME. Also replaces the account's home folder, which `ssh -G` writes for ~."""
    if path == "~" or path.startswith("~/"):
        return str(folder / path[2:])
    account = account_home()
    if account and str(folder) != account and path.startswith(account + "/.ssh/"):
        return str(folder / path[len(account) + 1 :])
    return path
