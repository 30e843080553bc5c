"""The TCP ports that processes of this machine listen on, as `ss` prints them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection

PID = re.compile(r"\bpid=(\d+)")


def listening_of(pids: Collection[int]) -> set[tuple[str, int]]:
    """Return the address and port of every listening TCP socket of these processes."""
    done = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True)
    found = set()
    for line in done.stdout.splitlines():
        if any(int(pid) in pids for pid in PID.findall(line)):
            address, _, port = line.split()[3].rpartition(":")
            found.add((address, int(port)))
    return found
