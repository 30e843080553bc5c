"""What is done once a payload has come to a host: its byte code is there, and payloads that nobody needs are gone."""

from __future__ import annotations

import contextlib
import os
import sys

from remote.payload.agent.compiled import compile_payload
from remote.payload.agent.old_payloads import remove_old_payloads

LEAST_URGENT = 19


def main(compiled: str, workdir: str) -> int:
    """Both are done as far as this host allows, while others have nothing more urgent to do."""
    payload = os.path.abspath(sys.argv[0])
    os.nice(LEAST_URGENT)
    with contextlib.suppress(OSError, SyntaxError):
        compile_payload(payload, compiled)
    with contextlib.suppress(OSError):
        remove_old_payloads(payload, workdir)
    return 0
