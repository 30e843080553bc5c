"""What is wrong with a tokenizer file, and which other one can stand in for it: judgements over what a look brought."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.tokenizer_files import PAIRED_MERGES_FROM, TokenizerFile, version_of

NAME = "tokenizer"
UPGRADE = 'pip install -U "tokenizers>=0.20" "transformers>=4.45"'


@dataclass(frozen=True)
class Complaint:
    """One file and what is to be done about it: `replace` False where the file is not what is wrong."""

    file: TokenizerFile
    finding: Finding
    replace: bool


def judge_files(files: Iterable[TokenizerFile], installed: str) -> tuple[Complaint, ...]:
    """What is wrong, a complaint per file; `installed` is the version of the tokenizers package, empty if unknown."""
    complaints = (_judge(file, installed) for file in files)
    return tuple(complaint for complaint in complaints if complaint is not None)


def _judge(file: TokenizerFile, installed: str) -> Complaint | None:
    if file.fault is not None:
        return Complaint(file, _error(file, f"{file.fault.kind.replace('-', ' ')}: {file.fault.detail}"), True)
    if file.mismatch and (file.known_from == "cache" or not file.path.endswith(".json")):
        return Complaint(file, _error(file, f"not the hub's file: {file.mismatch}"), True)
    if file.paired_merges and installed and version_of(installed) < PAIRED_MERGES_FROM:
        return Complaint(file, _too_new(file, f"tokenizers {installed} there cannot read merges in pairs"), False)
    if file.loads:
        return Complaint(file, _error(file, f"it does not load: {file.loads}"), True)
    if file.mismatch:
        message = f"{posixpath.basename(file.path)} differs from the hub's ({file.mismatch}); kept, because it is whole"
        return Complaint(file, Finding(NAME, Severity.WARNING, message, where=file.path), False)
    return None


def _error(file: TokenizerFile, reason: str) -> Finding:
    message = f"{posixpath.basename(file.path)} is broken: {reason}"
    return Finding(NAME, Severity.ERROR, message, where=file.path, exit_code=ExitCode.FIXER)


def _too_new(file: TokenizerFile, reason: str) -> Finding:
    return Finding(
        NAME,
        Severity.ERROR,
        f"{posixpath.basename(file.path)} is newer than the library that reads it: {reason}",
        where=file.path,
        hint=UPGRADE,
        exit_code=ExitCode.ENVIRONMENT,
    )


def good_copy(
    file: TokenizerFile, files: Sequence[TokenizerFile], source: str, repo: str, revision: str
) -> TokenizerFile | None:
    """A whole file of that name in the folder `source`, or in the cache for the same repository and revision."""
    file_name = posixpath.basename(file.path)
    whole = [f for f in files if f.real != file.real and not (f.fault or f.mismatch or f.loads)]
    named = [f for f in whole if posixpath.basename(f.path) == file_name]
    if source:
        return next((f for f in named if posixpath.dirname(f.path) == source), None)
    cached = [f for f in named if f.known_from == "cache" and f.repo == repo]
    return next((f for f in cached if not revision or f.revision == revision), None)
