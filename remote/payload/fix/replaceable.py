"""Decide which tokenizer files the fixer may replace: those in the project's tree and in the cache of huggingface_hub.

A project chooses folders, copies and links. Without this check, a project could cause the fixer to overwrite any file
of the user.
"""

from __future__ import annotations

import os
from typing import Any, Mapping, Tuple

from remote.payload.fix.hub_client import redirect_of
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.tokenizer_files import NAMES, Digest, digest_from_etag


def is_replaceable(path: str, tree: str, cache: str) -> bool:
    """Return True if the path, with links resolved, is a tokenizer file in the tree, or a file of the cache."""
    real = os.path.realpath(path)
    inside = _parts_below(tree, real)
    return (bool(inside) and inside[-1] in NAMES and ".git" not in inside) or _is_cached(_parts_below(cache, real))


def require_replaceable(path: str, tree: str, cache: str, args: Mapping[str, Any], new: Digest) -> str:
    """Return the path with links resolved, to which the file with the digest `new` may be written. Raises Refusal.

    The name of a blob in the cache is its digest. A file of a snapshot without blobs must come from the snapshot's own
    repository and commit, because other projects use it too.
    """
    real = os.path.realpath(path)
    if not is_replaceable(real, tree, cache):
        raise _refused(real, "it is outside of the project's tree and of the hub's cache")
    parts = _parts_below(cache, real)
    if not _is_cached(parts):
        return real
    known = digest_from_etag(parts[-1]) if parts[1] == "blobs" else None
    if known is not None and known.mismatch(new):
        raise _refused(real, f"another file belongs there: {known.mismatch(new)}")
    of_snapshot = f"models--{args.get('repo', '').replace('/', '--')}", args.get("revision")
    if known is None and ((parts[0], parts[2]) != of_snapshot or redirect_of(args.get("environment", {}))):
        raise _refused(real, "a file of a snapshot is replaced only by a download of this snapshot from the host's hub")
    return real


def _is_cached(parts: Tuple[str, ...]) -> bool:
    if len(parts) < 3 or not parts[0].startswith("models--"):
        return False
    if parts[1] == "blobs":
        return len(parts) == 3 and digest_from_etag(parts[2]) is not None
    return parts[1] == "snapshots" and len(parts) > 3 and parts[-1] in NAMES


def _parts_below(folder: str, path: str) -> Tuple[str, ...]:
    """Return the parts of the path below the folder, or () if it is not below the folder."""
    root = os.path.join(os.path.realpath(folder), "")
    return tuple(path[len(root) :].split("/")) if path.startswith(root) else ()


def _refused(path: str, why: str) -> Refusal:
    return Refusal("elsewhere", f"{path} was not written: {why}", where=path, exit_code=ExitCode.FIXER)
