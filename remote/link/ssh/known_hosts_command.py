"""Run the KnownHostsCommand of ssh_config, which prints lines of known_hosts."""

from __future__ import annotations

import base64
import getpass
import os
import re
import socket
import subprocess
from collections.abc import Mapping

from remote.errors import HostKeyRefused
from remote.link.ssh.known_hosts import Entry, HostKey, parse_known_hosts
from remote.link.ssh.route import ResolvedHop, known_hosts_name
from remote.project.user_folder import home
from remote.protocol.text import first_line

TIMEOUT_S = 30.0
OPTION = "KnownHostsCommand"


def run_known_hosts_command(
    hop: ResolvedHop, presented: HostKey | None, environment: Mapping[str, str] = os.environ
) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Return the entries that the command prints, and a message for each malformed line.

    Like ssh, halfstep runs the command twice: before the handshake, without a key, to choose the types of keys to
    request, and then with the key that the server presented. Raises HostKeyRefused if the command fails, as ssh does.
    """
    if not hop.known_hosts_command:
        return (), ()
    tokens = _tokens(hop, presented, environment)
    argv = [_expand_tokens(word, tokens) for word in hop.known_hosts_command]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False, env=dict(environment)
        )
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise _refused(str(error)) from None
    if done.returncode:
        raise _refused(f"exit {done.returncode}: {first_line(done.stderr)}")
    return parse_known_hosts(done.stdout.decode("utf-8", "replace"), OPTION)


def _tokens(hop: ResolvedHop, presented: HostKey | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the tokens, see TOKENS in ssh_config(5)."""
    local = socket.gethostname()
    return {
        "%": "%",
        "d": str(home(environment)),
        "f": presented.fingerprint if presented else "NONE",
        "H": hop.key_name,
        "h": hop.host,
        "I": "HOSTNAME" if presented else "ORDER",
        "i": str(os.getuid()),
        "K": base64.b64encode(presented.blob).decode() if presented else "NONE",
        "k": hop.alias if hop.key_name == known_hosts_name(hop.host, hop.port) else hop.key_name,
        "L": local.partition(".")[0],
        "l": local,
        "n": hop.alias,
        "p": str(hop.port),
        "r": hop.user,
        "t": presented.key_type if presented else "NONE",
        "u": getpass.getuser(),
    }


def _expand_tokens(word: str, tokens: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found[1] not in tokens:
            raise _refused(f"halfstep does not support the token {found[0]}")
        return tokens[found[1]]

    return re.sub(r"%(.?)", value, word, flags=re.DOTALL)


def _refused(reason: str) -> HostKeyRefused:
    return HostKeyRefused(
        f"{OPTION} of ~/.ssh/config failed ({reason}), so no host key can be verified",
        where=OPTION,
        hint="correct the command, or use --set host.known_hosts=FILE, which replaces the command",
    )
