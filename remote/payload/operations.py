"""Every operation the payload answers: a literal table, and whether it changes anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict

from remote.payload import events, files, follow, logs
from remote.payload.call import Handler


@dataclass(frozen=True)
class Operation:
    """A handler, and whether the host may be different after it."""

    handler: Handler
    changes: bool


OPERATIONS: Dict[str, Operation] = {
    "file.read": Operation(files.read_file, changes=False),
    "file.list": Operation(files.list_files, changes=False),
    "events.read": Operation(events.read_events, changes=False),
    "log.read": Operation(logs.read_log, changes=False),
    "follow.events": Operation(follow.follow_events, changes=False),
    "follow.log": Operation(follow.follow_log, changes=False),
    "file.write": Operation(files.write_file, changes=True),
    "command.probe": Operation(files.run_command, changes=False),
    "command.run": Operation(files.run_command, changes=True),
}
