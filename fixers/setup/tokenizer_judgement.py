"""Judge tokenizer files, and choose the valid copy that replaces a broken file."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence

from fixers.frame.findings import error, warning
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.tokenizer_files import PAIRED_MERGES_FROM, TokenizerFile, version_of

NAME = "tokenizer"
UPGRADE = 'pip install -U "tokenizers>=0.20" "transformers>=4.45"'


@dataclass(frozen=True)
class FaultyFile:
    """A finding about one file; `replace` is False if the file is valid and the installed library is too old."""

    file: TokenizerFile
    finding: Finding
    replace: bool


def judge_files(files: Iterable[TokenizerFile], installed: str) -> tuple[FaultyFile, ...]:
    """Return every faulty file with its finding. `installed`: the version of tokenizers, or "" if unknown."""
    faulty_files = (_judge(file, installed) for file in files)
    return tuple(faulty for faulty in faulty_files if faulty is not None)


def _judge(file: TokenizerFile, installed: str) -> FaultyFile | None:
    if file.fault is not None:
        return FaultyFile(file, _error(file, f"{file.fault.kind.replace('-', ' ')}: {file.fault.detail}"), True)
    if file.mismatch and (file.known_from == "cache" or not file.path.endswith(".json")):
        return FaultyFile(file, _error(file, f"not the hub's file: {file.mismatch}"), True)
    if file.paired_merges and installed and version_of(installed) < PAIRED_MERGES_FROM:
        return FaultyFile(file, _too_new(file, f"tokenizers {installed} cannot read paired merges"), False)
    if file.loads:
        return FaultyFile(file, _error(file, f"it fails to load: {file.loads}"), True)
    if file.mismatch:
        message = f"{posixpath.basename(file.path)} differs from the hub's ({file.mismatch}); kept, because it is valid"
        return FaultyFile(file, warning(NAME, message, file.path), False)
    return None


def _error(file: TokenizerFile, reason: str) -> Finding:
    message = f"{posixpath.basename(file.path)} is broken: {reason}"
    return error(NAME, message, file.path)


def _too_new(file: TokenizerFile, reason: str) -> Finding:
    message = f"{posixpath.basename(file.path)} is too new for the installed library: {reason}"
    return error(NAME, message, file.path, UPGRADE, exit_code=ExitCode.ENVIRONMENT)


def good_copy(
    file: TokenizerFile, files: Sequence[TokenizerFile], source: str, repo: str, revision: str
) -> TokenizerFile | None:
    """Return a valid file of this name from the folder `source`, or from the hub cache if `source` is "", or None."""
    for other in files:
        if other.real == file.real or posixpath.basename(other.path) != posixpath.basename(file.path):
            continue
        if not _is_valid(other):
            continue
        if posixpath.dirname(other.path) == source if source else _is_cached(other, repo, revision):
            return other
    return None


def _is_valid(file: TokenizerFile) -> bool:
    return not (file.fault or file.mismatch or file.loads)


def _is_cached(file: TokenizerFile, repo: str, revision: str) -> bool:
    """Return True if the hub cache has the file for this repository and revision. An empty revision matches any."""
    return file.known_from == "cache" and file.repo == repo and revision in ("", file.revision)
