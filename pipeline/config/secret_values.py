"""Detect secrets in a config by variable names and by the format of values. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipeline.config.document import Document
from remote.protocol.findings import Finding

SECRET_NAME = re.compile(
    r"(?:^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|(?:ACCESS|SECRET|PRIVATE|AUTH)_?KEY|CREDENTIALS?)$", re.I
)
NOT_SECRET = re.compile(r"\$\w+|\$\{\w+\}|~?/\S*|<.*>|\[.*\]|\d?|true|false|yes|no|on|off|none|null", re.I)
"""Values that are never secrets: a reference to a variable, a path, a special token of a tokenizer, a boolean."""
SECRET_VALUE = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{20,}"
    r"|xox[abprs]-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}\b|AIza[\w-]{30,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.)"
    r"|-----BEGIN [A-Z0-9 ]*PRIVATE KEY|\w://[^/\s:@]+:[^/\s:@$]+@"
)
URL_USER = re.compile(r"\bhttps?://[^/\s@$]+@")
"""The user name in a URL. Package indexes accept an access token as the user name."""
CHECKED_ELSEWHERE = ("env", "secrets", "command")


def secret_reason(name: str, value: str) -> str:
    """Return the reason why the value looks like a secret, or "" if it does not."""
    if SECRET_VALUE.search(value):
        return "its value looks like a secret"
    if SECRET_NAME.search(name) and not NOT_SECRET.fullmatch(value.strip()):
        return "its name is that of a secret"
    return ""


def check_environment(env: Mapping[str, str], document: Document) -> Iterator[Finding]:
    """Yield a problem for each variable of `env:` that looks like a secret. The problem does not contain the value."""
    for name, value in env.items():
        if reason := secret_reason(name, value):
            message = f"{reason}, and env: is stored in plain files on both machines; export the variable and name it"
            yield document.problem(("env", name), f"{message} under secrets:", f"secrets: [{name}]")


def check_names(names: Iterable[str], document: Document) -> Iterator[Finding]:
    """Yield a problem if `secrets:` contains a secret instead of a variable name."""
    if any(SECRET_VALUE.search(name) for name in names):
        message = "contains a secret itself; write the name of the environment variable instead"
        yield document.problem(("secrets",), message, "secrets: [NAME]")


def check_argv(argv: Iterable[str], document: Document) -> Iterator[Finding]:
    """Yield a problem if a word of the command looks like a secret."""
    if any(SECRET_VALUE.search(word) for word in argv):
        message = "one of its words looks like a secret, and every user of the host can read a command line"
        yield document.problem(("command",), f"{message}; read it from the environment", "secrets: [NAME]")


def check_texts(document: Document) -> Iterator[Finding]:
    """Yield a problem for each value of the other sections that looks like a secret or has credentials in a URL."""
    for key, value in texts_in(document.values, ()):
        if key[0] not in CHECKED_ELSEWHERE and (SECRET_VALUE.search(value) or URL_USER.search(value)):
            message = "its value looks like a secret, and is stored in plain files and command lines on both machines"
            hint = (
                "write the secret on the host: into ~/.netrc for a package index, or into a file that the command reads"
            )
            yield document.problem(key, message, hint)


def texts_in(value: Any, key: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the key and the text of every text inside a value."""
    if isinstance(value, str):
        yield key, value
        return
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from texts_in(item, (*key, name))
