"""Apply a fixer's change of the host, and report its progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fixers.frame.change import HostChange
from pipeline.messages.listener import Listener
from remote.host import Host
from remote.protocol.hidden import message_line
from remote.protocol.quantities import count, size
from remote.protocol.values import MAX_INT

LARGE_BYTES = 100 * 10**6
"""Downloads of at least this size are reported with a permanent line."""


def apply_host_change(change: HostChange, host: Host, listener: Listener) -> None:
    """Apply the change on the host and report its summary and progress to the listener."""
    listener.progress(change.summary)
    host.act(change.op, change.args, on_event=lambda event: report_event(event, listener))


def report_event(event: Mapping[str, Any], listener: Listener) -> None:
    """Report an event ({note}, {downloads, free_bytes} or {doing, done, total}); other events are ignored."""
    downloads = event.get("downloads")
    if "note" in event:
        listener.note(message_line(str(event["note"])))
    elif isinstance(downloads, Mapping):
        large = _number(downloads.get("remote_bytes")) >= LARGE_BYTES
        (listener.note if large else listener.detail)(describe_download(downloads, event.get("free_bytes")))
    elif "doing" in event:
        done, total = _number(event.get("done")), _number(event.get("total"))
        listener.detail(message_line(str(event["doing"])), done if total else None, total or None)


def describe_download(downloads: Mapping[str, Any], free_bytes: object) -> str:
    """Format a download: '36 packages (torch 2.13.0 is the largest): 2.6 GB to download; 41.0 GB are free'."""
    packages, unknown = int(_number(downloads.get("packages"))), int(_number(downloads.get("unknown")))
    name = downloads.get("largest") if packages > 1 else None
    largest = f" ({message_line(str(name))} is the largest)" if name else ""
    least = "at least " if unknown else ""
    room = f"; {size(_number(free_bytes))} are free" if isinstance(free_bytes, int) else ""
    to_download = size(_number(downloads.get("remote_bytes")))
    return f"{count(packages, 'package')}{largest}: {least}{to_download} to download{room}"


def _number(value: object) -> float:
    """Return the value if it is a number that can be a count of the host, otherwise 0."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value <= MAX_INT else 0.0
