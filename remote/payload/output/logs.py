"""Send a job's output from an offset, or its last lines."""

from __future__ import annotations

import os
from typing import Any, BinaryIO, Dict, List

from remote.payload.output.events import is_unchanged_before
from remote.payload.output.job_folder import job_folder, run_root
from remote.payload.request.call import Call
from remote.protocol.regular import open_regular
from remote.protocol.segments import FRESH, SEGMENT

BLOCK = 2**20
MAX_TAIL = 16 * 2**20
NO_LIMIT = 2**62


def read_log(call: Call) -> Dict[str, Any]:
    """Send the output as a stream of segments: at most `limit` bytes after `offset`, or the last `lines` lines.
    `tail_sha256` is the `tail_digest` at `offset`. If the digest does not match, the file was rewritten. A rewritten
    file is sent from its start, with `fresh` set to True. A job that has not begun has no file, and no output.
    """
    folder = job_folder(run_root(call), int(call.args.get("job", 0)))
    try:
        file = open_regular(os.path.join(folder, "output.log"))
    except FileNotFoundError:
        return {"offset": 0, "bytes": 0, "size": 0, "fresh": False, "job": int(os.path.basename(folder))}
    with file:
        size = os.fstat(file.fileno()).st_size
        offset = int(call.args.get("offset", 0))
        fresh = "tail_sha256" in call.args and not is_unchanged_before(file, offset, call.args["tail_sha256"])
        if fresh:
            offset = 0
        if "lines" in call.args:
            offset = start_of_last_lines(file, int(call.args["lines"]))
        limit = min(size - offset, int(call.args.get("limit", NO_LIMIT)))
        sent = _send(call, file, offset, limit, FRESH if fresh else 0)
        return {"offset": offset, "bytes": sent, "size": size, "fresh": fresh, "job": int(os.path.basename(folder))}


def start_of_last_lines(file: BinaryIO, lines: int) -> int:
    """Return the offset at which the last `lines` lines begin. Searches the last 16 MiB at most."""
    size = os.fstat(file.fileno()).st_size
    if lines <= 0:
        return size
    blocks: List[bytes] = []
    at, missing = size, lines + 1
    while at > 0 and size - at < MAX_TAIL:
        step = min(65536, at)
        at -= step
        blocks.insert(0, os.pread(file.fileno(), step, at))
        missing -= blocks[0].count(b"\n")
        if missing <= 0:
            break
    text = b"".join(blocks)
    end = len(text) - 1 if text.endswith(b"\n") else len(text)
    for _ in range(lines):
        end = text.rfind(b"\n", 0, end)
        if end < 0:
            return at
    return at + end + 1


def _send(call: Call, file: BinaryIO, offset: int, limit: int, flags: int) -> int:
    sent = 0
    while sent < limit:
        chunk = os.pread(file.fileno(), min(BLOCK, limit - sent), offset + sent)
        if not chunk:
            break
        call.send(SEGMENT.pack(0, flags, len(chunk)) + chunk)
        sent, flags = sent + len(chunk), 0
    return sent
