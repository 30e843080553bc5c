"""Recognise files that `torch.save` wrote under any name, by their first bytes. Nothing is unpickled."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import PurePosixPath

from remote.errors import HalfstepError, RemoteFault
from remote.host import Entry, Host
from remote.protocol.data_files import HEAD, ZIP, ZIP_ENTRY

ENDINGS = ("", ".tar", ".model", ".pkl", ".params", ".state", ".weights")
"""Endings of the files that are read: no ending, as in `g_00000010`, and endings that other programs use too."""
SKIPPED_FOLDERS = ("jobs", "__pycache__", "site-packages", "node_modules")
SMALLEST = 64
MOST_READ = 32
"""The number of files that are read. The largest files are read first."""
LEGACY = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")
"""The first bytes of the format before torch 1.6: its magic number as a pickle."""


def find_torch_files(host: Host, root: str, entries: Iterable[Entry]) -> set[str]:
    """Return the paths of the entries below the folder `root` that `torch.save` wrote, although no ending says so.

    If the host does not answer, the remaining files are not read.
    """
    possible = sorted(filter(_is_possible, entries), key=lambda entry: entry.size, reverse=True)
    found = set()
    with suppress(HalfstepError, OSError):
        for entry in possible[:MOST_READ]:
            if is_torch_file(read_head(host, f"{root}/{entry.path}")):
                found.add(entry.path)
    return found


def is_torch_file(head: bytes) -> bool:
    """Return True if a file with these first bytes was written by `torch.save`.

    It is a ZIP archive that begins with NAME/data.pkl, or a pickle of torch's magic number.
    """
    if len(head) < ZIP_ENTRY.size:
        return head.startswith(LEGACY)
    signature, length, _ = ZIP_ENTRY.unpack_from(head)
    name = head[ZIP_ENTRY.size : ZIP_ENTRY.size + length]
    return head.startswith(LEGACY) or (signature == ZIP and name.endswith(b"/data.pkl"))


def _is_possible(entry: Entry) -> bool:
    path = PurePosixPath(entry.path)
    usual = path.suffix in ENDINGS or path.suffix[1:].isdigit()
    hidden = any(part.startswith(".") or part in SKIPPED_FOLDERS for part in path.parts)
    return entry.kind == "f" and entry.size >= SMALLEST and usual and not hidden


def read_head(host: Host, path: str) -> bytes:
    """Return the first bytes of the file, or b"" if the host cannot read it."""
    head = bytearray()
    with suppress(RemoteFault):
        host.fetch("file.read", {"path": path, "limit": HEAD}, head.extend, limit=HEAD)
    return bytes(head)
