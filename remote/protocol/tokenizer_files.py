"""The names of tokenizer files and their validation, for laptop and host."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Dict, Optional, Tuple

from remote.protocol.dataclass import dataclass, field
from remote.protocol.hidden import Identifier
from remote.protocol.text import version_numbers

MAIN = "tokenizer.json"
COMPANIONS = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "preprocessor_config.json",
    "processor_config.json",
    "chat_template.json",
    "chat_template.jinja",
)
NAMES = (MAIN, *COMPANIONS)
ROUND_TRIPS = ("The quick brown fox, 3 times!", "naïve café — 12.5 Hz", "发音 評価 тест 🙂")
"""Texts that a tokenizer must encode and decode: plain words, accents, punctuation, and other scripts."""

LFS_POINTER = b"version https://git-lfs."
LARGEST_BYTES = 128 * 2**20
"""The maximum size of a file. The largest tokenizers, with 250,000 tokens, have about 35 MB."""
MAX_VALUES = 4 * 10**6
"""The maximum number of JSON values in a file, which limits the memory for parsing it. The largest tokenizers have 2
million values.
"""
PAIRED_MERGES_FROM = (0, 20)
"""The first tokenizers release that reads merges written as pairs.

Older releases fail with "untagged enum ModelWrapper".
"""


@dataclass(frozen=True)
class Fault:
    """Why a file is invalid.

    `kind` is truncated, empty, missing, lfs-pointer, html, not-json, not-a-tokenizer, or unrecorded (repaired, but not
    yet in the manifest).
    """

    kind: Identifier
    detail: str


def judge_file(name: str, data: bytes) -> Optional[Fault]:
    """Return the fault in the content of the file `name`, or None if no fault was found.

    JSON over the limits is not parsed.
    """
    if not data.strip():
        return Fault("empty", f"{len(data)} bytes, none of them text")
    if data.startswith(LFS_POINTER):
        return Fault("lfs-pointer", f"a Git LFS pointer of {len(data)} bytes, not the file it points to")
    start = data[:256].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return Fault("html", "a web page, sent by a login form, mirror or proxy instead of the file")
    if not name.endswith(".json") or _limit_exceeded(data):
        return None
    return _judge_json(name, data)


def judge_download(name: str, data: bytes) -> Optional[Fault]:
    """Return the fault in a downloaded file, or None. A file over the limits has a fault, because it is not parsed."""
    exceeded = _limit_exceeded(data)
    return Fault("not-a-tokenizer", exceeded) if exceeded else judge_file(name, data)


def _limit_exceeded(data: bytes) -> str:
    """Return which limit the content of a file exceeds, or ""."""
    if len(data) > LARGEST_BYTES:
        return f"{len(data)} bytes; a file of a tokenizer has at most {LARGEST_BYTES}"
    values = data.count(b",") + data.count(b"[") + data.count(b"{")
    return f"more than {MAX_VALUES} values" if values > MAX_VALUES else ""


def _judge_json(name: str, data: bytes) -> Optional[Fault]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        kind = "truncated" if error.end >= len(data) else "not-json"
        return Fault(kind, f"byte {error.start} of {len(data)} is not UTF-8")
    try:
        value = json.loads(text)
    except ValueError as error:
        return _judge_json_error(text, error)
    except RecursionError:
        return Fault("not-json", "it is nested too deeply")
    if not isinstance(value, dict):
        return Fault("not-json", f"expected an object, got {type(value).__name__}")
    if name == MAIN and not isinstance(value.get("model"), dict):
        return Fault("not-a-tokenizer", "it has no `model` object")
    return None


def _judge_json_error(text: str, error: ValueError) -> Fault:
    """Return the fault `truncated` if the error is at the end of the file, otherwise `not-json`."""
    at = getattr(error, "pos", 0)
    position = f"line {getattr(error, 'lineno', 0)} column {getattr(error, 'colno', 0)}"
    unterminated = str(error).startswith("Unterminated string")
    if unterminated or not text[at:].strip() or text[at:].strip() in _CUT_WORDS:
        return Fault("truncated", f"it ends in the middle of a value ({len(text.encode())} bytes, {position})")
    return Fault("not-json", f"it is not JSON from {position} on")


_CUT_WORDS = ("-", *(word[:end] for word in ("true", "false", "null") for end in range(1, len(word))))


def merges_are_pairs(data: bytes) -> bool:
    """Return True if each BPE merge is a list of two tokens. Only tokenizers 0.20 and newer can read these merges."""
    return re.search(rb'"merges"\s*:\s*\[\s*\[', data) is not None


def version_of(text: str) -> Tuple[int, ...]:
    """Parse the leading numbers of a version: 0.19.1rc2 is (0, 19, 1). Return () if there are none."""
    numbers = re.match(r"[0-9]+(?:\.[0-9]+)*", text)
    return version_numbers(numbers[0]) if numbers else ()


@dataclass(frozen=True)
class Digest:
    """The expected size and digest. The hub identifies large files by SHA-256 and small files by Git's blob SHA-1."""

    size: int
    sha256: Identifier = ""
    git_sha1: Identifier = ""

    def mismatch(self, actual: Digest) -> str:
        """Return why a file with the size and digests of `actual` differs from the expected file, or ""."""
        if self.size >= 0 and actual.size != self.size:
            return f"{actual.size} bytes where the hub has {self.size}"
        if self.sha256 and actual.sha256 != self.sha256:
            return f"sha256 {actual.sha256[:12]} where the hub has {self.sha256[:12]}"
        if self.git_sha1 and actual.git_sha1 != self.git_sha1:
            return f"Git blob {actual.git_sha1[:12]} where the hub has {self.git_sha1[:12]}"
        return ""


@dataclass(frozen=True)
class HubTree:
    """The commit of a hub repository and the digests of its tokenizer files.

    If the hub fails, `fault` is the kind of error, in one word.
    """

    commit: Identifier = ""
    digests: Dict[str, Digest] = field(default_factory=dict)
    fault: Identifier = ""
    message: str = ""


def digest_of(data: bytes) -> Digest:
    """Return size, SHA-256 and Git blob SHA-1 of the bytes."""
    blob = hashlib.sha1(b"blob %d\0" % len(data), usedforsecurity=False)
    blob.update(data)
    return Digest(len(data), hashlib.sha256(data).hexdigest(), blob.hexdigest())


def digest_from_etag(etag: str, size: int = -1) -> Optional[Digest]:
    """Return the digest in a hub's ETag: SHA-256 for 64 hex digits, Git's SHA-1 for 40, and None for any other tag."""
    tag = etag.strip().strip('"')
    if re.fullmatch(r"[0-9a-f]{64}", tag):
        return Digest(size, sha256=tag)
    return Digest(size, git_sha1=tag) if re.fullmatch(r"[0-9a-f]{40}", tag) else None


@dataclass(frozen=True)
class TokenizerFile:
    """One tokenizer file on a host or laptop. `real` is the path of its content, such as a blob in the cache.

    `mismatch` says how the file differs from the record in `known_from` (the cache or the download). `repo` and
    `revision` are the origin of the file, or "" if its path does not show it. `loads` is the error of the host's own
    tokenizers library, or "". `replaceable` is False for a file outside of the project's tree and the hub's cache.
    """

    path: Identifier
    real: Identifier
    size: int
    sha256: Identifier
    fault: Optional[Fault] = None
    mismatch: str = ""
    known_from: Identifier = ""
    paired_merges: bool = False
    loads: str = ""
    repo: Identifier = ""
    revision: Identifier = ""
    replaceable: bool = True
