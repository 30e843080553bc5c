"""Survey a run's TensorBoard event files, and send their complete records as one stream."""

from __future__ import annotations

import hashlib
import json
import os
from io import BufferedReader
from typing import Any, BinaryIO, Dict, List, Optional, Tuple

from remote.payload.files.atomic import write_atomic
from remote.payload.output.event_files import find_events, resolve
from remote.payload.output.job_folder import newest_job
from remote.payload.request.call import Call
from remote.protocol.jobs import EventFile
from remote.protocol.layout import RunLayout
from remote.protocol.records import LENGTH, OVERHEAD, read_records, scan_file
from remote.protocol.regular import open_regular
from remote.protocol.segments import FRESH, SEGMENT, tail_digest
from remote.protocol.values import dumps

INDEX = "events.json"
TAIL_CHECKED = 256 * 2**10


def survey_events(run_root: str) -> Tuple[EventFile, ...]:
    """Return every event file of the run, sorted by name. The sizes are in bytes, without an incomplete last record.

    The survey checks the length of every record, but only the checksums near the end. A pull checks all checksums. If
    the newest job has an index of its files, only the files in the index are read.
    """
    job, indexed = _read_index(run_root)
    if job and job == newest_job(RunLayout(run_root)):
        pairs = [(name, resolve(run_root, name)) for name in sorted(indexed)]
    else:
        pairs = find_events(run_root)
    files = [_survey_file(name, path, indexed.get(name)) for name, path in pairs]
    return tuple(file for file in files if file is not None)


def write_event_index(run_root: str) -> None:
    """Write an index of the event files, so that later surveys need not search. Call it after the job has ended."""
    rows = {}
    for name, path in find_events(run_root):
        file_survey = _survey_file(name, path, None)
        if file_survey is not None:
            rows[name] = [file_survey.size_bytes, file_survey.head_sha256, file_survey.ending, *_stamp(os.stat(path))]
    write_atomic(os.path.join(run_root, INDEX), dumps({"job": newest_job(RunLayout(run_root)), "files": rows}))


def is_unchanged_before(file: BinaryIO, offset: int, tail_sha256: str) -> bool:
    """Return True if the last bytes before `offset` have the digest `tail_sha256`. Otherwise the file was rewritten."""
    return os.fstat(file.fileno()).st_size >= offset and tail_digest(file.fileno(), offset) == tail_sha256


def read_events(call: Call) -> Dict[str, Any]:
    """Send the complete records of files from given offsets as one stream of segments: index, flags, size, bytes.

    `wants` is a list of [name, offset, `tail_digest` at this offset]. A rewritten file is sent from its start (FRESH).
    Returns one row for each file: its name, why reading ended, and the offset that was reached. If the file cannot be
    read, the row has its name and the error.
    """
    root = call.path(call.args["run"])
    rows: List[Dict[str, Any]] = []
    for index, (name, offset, tail) in enumerate(call.args["wants"]):
        try:
            with open_regular(resolve(root, name)) as file:
                rows.append({"name": name, **_send_file(call, file, index, offset, tail)})
        except OSError as error:
            rows.append({"name": name, "ending": "", "reason": error.strerror or str(error)})
    return {"files": rows}


def _send_file(call: Call, file: BinaryIO, index: int, offset: int, tail: str) -> Dict[str, Any]:
    flags = 0
    if not is_unchanged_before(file, offset, tail):
        offset, flags = 0, FRESH
    while True:
        records, ending = read_records(file.fileno(), offset)
        if not records:
            break
        call.send(SEGMENT.pack(index, flags, len(records)) + records)
        offset, flags = offset + len(records), 0
    return {"ending": ending.value, "size_bytes": offset, "fresh": bool(flags)}


def _survey_file(name: str, path: str, indexed: Optional[List[Any]]) -> Optional[EventFile]:
    try:
        with BufferedReader(open_regular(path)) as file:
            status = os.fstat(file.fileno())
            if indexed and indexed[3:] == _stamp(status):
                return EventFile(name, indexed[0], indexed[1], indexed[2])
            prefix = scan_file(file, check_from=max(0, status.st_size - TAIL_CHECKED))
            head = _head(file) if prefix.records else ""
            return EventFile(name, prefix.size_bytes, head, prefix.ending.value)
    except OSError:
        return None


def _head(file: BinaryIO) -> str:
    """Return the digest of the first record. The record contains a time, so the digest identifies the file."""
    (length,) = LENGTH.unpack(os.pread(file.fileno(), LENGTH.size, 0))
    return hashlib.sha256(os.pread(file.fileno(), OVERHEAD + length, 0)).hexdigest()


def _stamp(status: os.stat_result) -> List[int]:
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _read_index(run_root: str) -> Tuple[int, Dict[str, List[Any]]]:
    """Return the job and the rows of the index, or (0, {}) if the index is missing or damaged."""
    try:
        with open(os.path.join(run_root, INDEX), "rb") as file:
            index = json.load(file)
        return int(index["job"]), {name: row for name, row in index["files"].items() if len(row) == 6}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0, {}
