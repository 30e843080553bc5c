"""Convert `user@address:port`, or the ssh command of a provider, to values of a host file. Pure."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from remote.errors import BadUsage
from remote.link.address import Hop, judge_port, parse_hop
from remote.link.ssh.config_words import ssh_words
from remote.protocol.dataclass import dataclass
from remote.protocol.text import whole_number

COMMAND = "ssh "
URL = "ssh://"
WHERE = "host"
OTHER_COMMANDS = {
    "gcloud": "gcloud compute config-ssh   (writes aliases to ~/.ssh/config; use one as the host)",
    "ssh-keygen": "pipeline init 'ssh root@203.0.113.9 -p 12345'",
}
TAKES_VALUE = frozenset("BbcDEeFIiJLlmOoPpQRSWw")
"""The options of ssh(1) that take a value."""
KEYS = {"p": "port", "l": "user", "i": "identityfile", "J": "proxyjump"}
USED = ("hostname", "identityfile", "port", "proxyjump", "user", "userknownhostsfile")
REFUSED = frozenset("BbFIPQW")
"""Options that are rejected: they change the connection, and no key of a host file corresponds to them."""
REFUSED_SETTINGS = (
    "bindaddress",
    "bindinterface",
    "canonicaldomains",
    "canonicalizefallbacklocal",
    "canonicalizehostname",
    "canonicalizemaxdots",
    "canonicalizepermittedcnames",
    "hostkeyalias",
    "pkcs11provider",
    "proxycommand",
    "tag",
)
SETTING = re.compile(r'(?:[ \t\r\n]*=)?[ \t\r\n]*([^ \t\r\n="]+)(?:[ \t\r\n]*=[ \t\r\n]*|[ \t\r\n]+|$)(.*)', re.DOTALL)
"""Matches the keyword and the value of `-o`, as in readconf.c of OpenSSH. A keyword with quotes does not match."""
USE_ALIAS = "write the option into a Host block of ~/.ssh/config, and use that alias as the host"


@dataclass(frozen=True)
class Destination:
    """The destination of an ssh command.

    Values that are None are taken from ~/.ssh/config. `ignored` are options that halfstep does not use.
    """

    hop: Hop
    identity_file: str | None = None
    proxy_jump: tuple[str, ...] = ()
    known_hosts: str | None = None
    ignored: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """`user@host:port`, the same for every notation of this destination."""
        host = f"[{self.hop.host}]" if ":" in self.hop.host and self.hop.port else self.hop.host
        user = f"{self.hop.user}@" if self.hop.user else ""
        return f"{user}{host}{f':{self.hop.port}' if self.hop.port else ''}"

    def values(self, folder: Path) -> dict[str, Any]:
        """Return the keys and values of a host file. Relative paths are resolved against `folder`."""
        found = {
            "host": self.hop.host,
            "port": self.hop.port,
            "user": self.hop.user,
            "identity_file": _absolute(self.identity_file, folder),
            "known_hosts": _absolute(self.known_hosts, folder),
            "proxy_jump": list(self.proxy_jump),
        }
        return {key: value for key, value in found.items() if value}


def _absolute(path: str | None, folder: Path) -> str | None:
    if path is None or path.startswith("~"):
        return path
    return f"~{path.removeprefix('$HOME')}" if path.startswith("$HOME/") else str(folder / path)


def is_destination(name: str) -> bool:
    """Return True for an ssh command, an ssh:// URL, or a name with a user or port.

    None of these is a valid name of a host file.
    """
    name = _without_shell_prompt(name)
    if name.startswith((COMMAND, URL)) or name.split(" ", maxsplit=1)[0] in OTHER_COMMANDS:
        return True
    host, _, port = name.rpartition(":")
    has_port = bool(host) and port.isdigit() and (":" not in host or host.endswith("]"))
    return "/" not in name and ("@" in name or has_port)


def parse_destination(text: str) -> Destination:
    """Parse `[user@]host[:port]`, `ssh://user@host:port` or an ssh command. Raises BadUsage."""
    text = _without_shell_prompt(text)
    program = text.split(" ", maxsplit=1)[0]
    if program in OTHER_COMMANDS:
        raise BadUsage(f"{program} does not name a host", where=WHERE, hint=OTHER_COMMANDS[program])
    return _parse_command(text) if text.startswith(COMMAND) else Destination(_hop(text))


def _without_shell_prompt(text: str) -> str:
    """Return the text without a shell prompt and surrounding spaces, which are often copied with a command."""
    return text.strip().removeprefix("$ ").lstrip()


def _hop(text: str) -> Hop:
    try:
        return parse_hop(text.removesuffix("/") if text.startswith(URL) else text)
    except BadUsage as error:
        error.where = WHERE
        raise


def _parse_command(text: str) -> Destination:
    try:
        words = shlex.split(text)[1:]
    except ValueError as error:
        raise BadUsage(f"invalid ssh command: {error}", where=WHERE) from None
    hosts: list[str] = []
    settings: dict[str, str] = {}
    ignored: list[str] = []
    for option, value in _options(words):
        key, setting = _setting(option, value)
        if not option:
            # As in ssh, the first value in the order of the words is valid, also before that of `user@` and `:port`.
            settings = settings if hosts else {**_settings_of_host(value), **settings}
            hosts.append(value)
        elif key in USED:
            settings.setdefault(key, setting)
        elif option in REFUSED or key in REFUSED_SETTINGS:
            raise BadUsage(f"the ssh option -{option} {value} cannot be used here", where=WHERE, hint=USE_ALIAS)
        else:
            ignored.append(f"-{option} {value}".rstrip())
    return _destination(hosts, settings, tuple(ignored))


def _settings_of_host(word: str) -> dict[str, str]:
    """Return the user and the port in `user@host:port`."""
    hop = _hop(word)
    found = {"user": hop.user or "", "port": str(hop.port or "")}
    return {key: value for key, value in found.items() if value}


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (letter, value) for each option before or after the host, and ("", word) for any other word."""
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            yield "", word
            continue
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter not in TAKES_VALUE:
                yield letter, ""
                continue
            value = letters or next(rest, "")
            if not value:
                raise BadUsage(f"the ssh option -{letter} lacks its value", where=WHERE)
            yield letter, value
            break


def _setting(option: str, value: str) -> tuple[str, str]:
    """Return the name of the setting in lower case, as in ssh_config, and its value."""
    if option != "o":
        return KEYS.get(option, ""), value
    matched = SETTING.fullmatch(value.rstrip(" \t\r\n\f"))
    if matched is None:
        raise BadUsage(f"the ssh option -o {value} has no valid keyword", where=WHERE, hint=USE_ALIAS)
    key, after = matched[1].lower(), matched[2]
    if key == "proxyjump":  # the one of these values that ssh does not split into words
        return key, after.lstrip(" \t\r\n=").partition("#")[0].rstrip()
    return key, _word(matched[1], after) if key in USED and key != "userknownhostsfile" else after


def _word(key: str, value: str) -> str:
    words = _words(key, value)
    if len(words) != 1 or not words[0]:
        raise BadUsage(f"invalid {key} {value!r}: expected one value", where=WHERE)
    return words[0]


def _words(key: str, value: str) -> list[str]:
    try:
        return ssh_words(value, comments=True)
    except ValueError as error:
        raise BadUsage(f"invalid {key} {value!r}: {error}", where=WHERE) from None


def _destination(hosts: list[str], settings: dict[str, str], ignored: tuple[str, ...]) -> Destination:
    if len(hosts) != 1:
        what = f"a command to run: {' '.join(hosts[1:])}" if hosts else "no host"
        raise BadUsage(f"the ssh command has {what}", where=WHERE, hint="pipeline init 'ssh root@203.0.113.9 -p 12345'")
    hop = _hop(hosts[0])
    port_text = settings.get("port", "")
    port = whole_number(port_text)
    if port_text and port is None:
        raise BadUsage(f"invalid port {port_text[:60]!r}", where=WHERE)
    judge_port(port)
    jumps = settings.get("proxyjump", "none")
    known = _known_hosts(settings.get("userknownhostsfile", ""))
    return Destination(
        Hop(settings.get("hostname", hop.host), settings.get("user"), port),
        settings.get("identityfile"),
        () if jumps.lower() == "none" else tuple(jumps.split(",")),
        known,
        ignored,
    )


def _known_hosts(value: str) -> str | None:
    """Return the file that UserKnownHostsFile names. Raises BadUsage if it names several files."""
    files = [file for file in _words("UserKnownHostsFile", value) if file not in (os.devnull, "none")]
    if len(files) > 1:
        raise BadUsage(f"UserKnownHostsFile names several files: {', '.join(files)}", where=WHERE, hint=USE_ALIAS)
    return next(iter(files), None)
