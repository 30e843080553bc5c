"""Operations on single files, and short commands."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
from typing import Any, Dict, List

from remote.payload.files.atomic import write_atomic
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.frames import MAX_CHUNK

MAX_LISTED = 1_000_000


def read_file(call: Call) -> Dict[str, Any]:
    """Send at most `limit` bytes of the file, starting at `offset`."""
    sent = 0
    limit = call.args.get("limit")
    with open(call.path(call.args["path"]), "rb") as file:
        file.seek(call.args.get("offset", 0))
        while limit is None or sent < limit:
            chunk = file.read(MAX_CHUNK if limit is None else min(MAX_CHUNK, limit - sent))
            if not chunk:
                break
            call.send(chunk)
            sent += len(chunk)
        return {"bytes": sent, "size": os.fstat(file.fileno()).st_size}


def write_file(call: Call) -> Dict[str, Any]:
    """Write the request's byte stream to the file atomically."""
    data = b"".join(call.chunks())
    write_atomic(call.path(call.args["path"]), data, call.args.get("mode", 0o644))
    return {"bytes": len(data)}


def exist(call: Call) -> Dict[str, Any]:
    """Return which of the paths exist on the host. `~` is expanded and links are followed."""
    return {"there": [path for path in call.args["paths"] if os.path.exists(os.path.expanduser(path))]}


def list_files(call: Call) -> Dict[str, Any]:
    """List every path under a folder, without following links. The list is empty if the folder is missing."""
    root = call.path(call.args["path"])
    rows: List[List[Any]] = []
    for folder, folders, names in os.walk(root):
        for name in sorted(folders) + sorted(names):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            rows.append([os.path.relpath(path, root), _kind(status.st_mode), status.st_size, status.st_mode & 0o7777])
            if len(rows) > MAX_LISTED:
                raise Refusal("too-many", f"more than {MAX_LISTED} paths under {root}", exit_code=ExitCode.SYNC)
    return {"entries": rows}


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "f"
    if stat.S_ISDIR(mode):
        return "d"
    return "l" if stat.S_ISLNK(mode) else "?"


def run_command(call: Call) -> Dict[str, Any]:
    """Run `argv` and return its exit status and output. Raises Refusal `timeout` after `timeout_s` seconds."""
    argv: List[str] = call.args["argv"]
    stdin = base64.b64decode(call.args.get("stdin", ""))
    cwd = call.args.get("cwd")
    try:
        done = subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            cwd=call.path(cwd) if cwd else None,
            timeout=call.args["timeout_s"],
            check=False,
        )
    except FileNotFoundError:
        return {"exit": 127, "stdout": "", "stderr": base64.b64encode(f"{argv[0]}: not found".encode()).decode()}
    except subprocess.TimeoutExpired:
        raise Refusal("timeout", f"{argv[0]} did not end within {call.args['timeout_s']:.0f} s", where=argv[0])
    return {
        "exit": done.returncode,
        "stdout": base64.b64encode(done.stdout).decode(),
        "stderr": base64.b64encode(done.stderr).decode(),
    }
