"""Hosts for tests of bad connections: the real code with time limits of tenths of a second."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from remote.link.address import Address
from remote.link.agent import AgentHost
from remote.link.agent_start import Retries
from remote.link.ssh.sockets import Timeouts
from remote.link.ssh.starter import SshStarter
from tests.lab.chaos import ChaosProxy
from tests.lab.wait import until

Chaos = Callable[..., ChaosProxy]
# The default limits, divided by about ten; `test_the_default_time_limits` checks the defaults.
SHORT_TIMEOUTS = Timeouts(connect_s=5.0, keepalive_s=0.4, silence_s=1.6)
QUICK = Retries(tries=5, first_wait_s=0.05)
SEEN_S = 30.0
"""Long enough on a busy machine, and short for a test that waits for it to pass."""


def reach(address: Address, timeouts: Timeouts = SHORT_TIMEOUTS, retries: Retries = QUICK) -> AgentHost:
    return AgentHost(address.name, SshStarter(address, timeouts=timeouts), workdir=address.workdir, retries=retries)


def laptop(program: str, address: Address, *words: str, stdin: int | None = None) -> subprocess.Popen[bytes]:
    """Start a separate process that connects to `address`, its first argument."""
    kept = ("name", "host", "port", "user", "identity_file", "known_hosts", "workdir")
    given = {key: getattr(address, key) for key in kept}
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", program, repr(given), *words],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )


def when(true: Callable[[], bool], act: Callable[[], None]) -> None:
    """Call `act` from a thread once `true()` is true."""

    def wait() -> None:
        until(true)
        act()

    threading.Thread(target=wait, daemon=True).start()


def endless() -> Iterator[bytes]:
    while True:
        yield os.urandom(100_000)
