"""Compute the size of an installation from pip's plan, and check whether it fits on the disk."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Optional, Sequence
from urllib.parse import unquote, urlsplit

from remote.payload.request.refusal import Refusal
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.shell import on_host

PLANS_WITHOUT_DOWNLOADING = (25, 3)
"""The first version of pip that plans with `install --dry-run` and `fast-deps` without downloading wheels."""
TIMEOUT_S = 15.0
PARALLEL_REQUESTS = 8
GB = 10**9


@dataclass(frozen=True)
class Downloads:
    """A planned installation: bytes to download, bytes that are on this host already, and packages of unknown size."""

    packages: int
    largest: str
    remote_bytes: int
    local_bytes: int
    unknown: int


def parse_report(data: bytes) -> List[Dict[str, Any]]:
    """Return the `install` list of a `pip install --report`: `metadata` and `download_info` of each package."""
    try:
        items = json.loads(data)["install"]
    except (ValueError, KeyError, TypeError):
        return []
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def sum_downloads(items: Sequence[Dict[str, Any]]) -> Downloads:
    """Return the sum of the sizes of all packages in the report. The sizes come from HEAD requests."""
    urls = [str(item.get("download_info", {}).get("url", "")) for item in items]
    with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
        sizes = list(pool.map(_size, urls))
    local = [url.startswith("file:") for url in urls]
    order = sorted(range(len(items)), key=lambda at: sizes[at] or 0, reverse=True)
    return Downloads(
        packages=len(items),
        largest=_name(items[order[0]]) if order else "",
        remote_bytes=sum(size or 0 for size, is_local in zip(sizes, local) if not is_local),
        local_bytes=sum(size or 0 for size, is_local in zip(sizes, local) if is_local),
        unknown=sum(size is None for size in sizes),
    )


def _name(item: Dict[str, Any]) -> str:
    metadata = item.get("metadata", {})
    return f"{metadata.get('name', '')} {metadata.get('version', '')}".strip()


def _size(url: str) -> Optional[int]:
    parts = urlsplit(url)
    if parts.scheme == "file":
        path = unquote(parts.path)
        return os.path.getsize(path) if os.path.isfile(path) else 0
    if parts.scheme not in ("http", "https"):
        return None
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=TIMEOUT_S) as answer:
            length = answer.headers.get("Content-Length", "")
    except (OSError, ValueError):
        return None
    return int(length) if re.fullmatch("[0-9]{1,18}", length) else None


def require_room(downloads: Downloads, free_bytes: int, where: str) -> None:
    """Raise Refusal if the installation cannot fit on the disk.

    pip keeps every download until all packages are unpacked, and a package is at least as large as its archive.
    """
    needed = 2 * downloads.remote_bytes + downloads.local_bytes
    if needed <= free_bytes:
        return
    message = (
        f"{downloads.packages} packages ({downloads.largest} is the largest) need at least {needed / GB:.1f} GB:"
        f" {downloads.remote_bytes / GB:.1f} GB to download, and at least as much to unpack;"
        f" {free_bytes / GB:.1f} GB are free"
    )
    raise Refusal("no-space", message, where=where, hint=on_host("df -h {}", where), exit_code=ExitCode.DISK)


def reachable(index: str) -> bool:
    """Return True if the package index serves torch.

    Call it once before the installation, because pip would wait for an unreachable index at every package.
    """
    try:
        with urllib.request.urlopen(f"{index.rstrip('/')}/torch/", timeout=TIMEOUT_S) as answer:
            return 200 <= int(answer.status) < 300
    except (OSError, ValueError):
        return False
