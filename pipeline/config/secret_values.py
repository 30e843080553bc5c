"""Secrets that somebody wrote where everybody reads: known by the name of a variable or by how a value looks. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from pipeline.config.document import Document
from remote.protocol.findings import Finding

NAMED = re.compile(
    r"(?:^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|(?:ACCESS|SECRET|PRIVATE|AUTH)_?KEY|CREDENTIALS?)$", re.I
)
REFERS = re.compile(r"\$\w+|\$\{\w+\}|~?/\S*|<.*>|\[.*\]|\d?|true|false|yes|no|on|off|none|null", re.I)
"""Another variable, a path, a control token of a tokenizer, a switch: what is written there is no secret itself."""
LOOKS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{20,}"
    r"|xox[abprs]-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}\b|AIza[\w-]{30,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.)"
    r"|-----BEGIN [A-Z0-9 ]*PRIVATE KEY|\w://[^/\s:@]+:[^/\s:@$]+@"
)


def why_secret(name: str, value: str) -> str:
    """Why the value must not be written down; empty where it may be."""
    if LOOKS.search(value):
        return "its value looks like a secret"
    if NAMED.search(name) and not REFERS.fullmatch(value.strip()):
        return "its name is that of a secret"
    return ""


def check_environment(env: Mapping[str, str], document: Document) -> Iterator[Finding]:
    """A problem for each variable of `env:` whose value would lie in files and reports; the value is never told."""
    for name, value in env.items():
        if why := why_secret(name, value):
            words = f"{why}, and what env: says is kept in files here and there; export it here and name it instead"
            yield document.problem(("env", name), words, f"secrets: [{name}]")


def check_names(names: Iterable[str], document: Document) -> Iterator[Finding]:
    """A problem where `secrets:` has a secret itself and not the name of one."""
    if any(LOOKS.search(name) for name in names):
        words = "holds a secret itself; write the name of the variable that has it here"
        yield document.problem(("secrets",), words, "secrets: [NAME]")


def check_argv(argv: Iterable[str], document: Document) -> Iterator[Finding]:
    """A problem where a word of the command looks like a secret."""
    if any(LOOKS.search(word) for word in argv):
        words = "a word of it looks like a secret, and everybody on the host can read a command; let the script take it"
        yield document.problem(("command",), f"{words} from its environment", "secrets: [NAME]")
