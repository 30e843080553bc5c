"""Housekeeping after a payload was installed: compile its byte code, remove old payloads."""

from __future__ import annotations

import contextlib
import os
import sys

from remote.payload.agent.compiled import compile_payload
from remote.payload.agent.old_payloads import remove_old_payloads

LOWEST_PRIORITY = 19


def main(compiled: str, workdir: str) -> int:
    """Compile the byte code and remove old payloads, at the lowest priority."""
    payload = os.path.abspath(sys.argv[0])
    os.nice(LOWEST_PRIORITY)
    with contextlib.suppress(OSError, SyntaxError):
        compile_payload(payload, compiled)
    with contextlib.suppress(OSError):
        remove_old_payloads(payload, workdir)
    return 0
