"""A remote host: a network namespace behind a link with delay and limited bandwidth."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("delayline.c")
QUEUE_BYTES = 4 * 2**20
_numbers = itertools.count()


def why_no_delayed_link() -> str:
    """Return the reason why this machine cannot delay packets, or "" if it can."""
    if os.getuid() != 0:
        return "network namespaces need root"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "no /dev/net/tun on this machine"
    missing = [tool for tool in ("ip", "cc") if shutil.which(tool) is None]
    return f"{missing[0]} is not installed" if missing else ""


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=60)


@dataclass
class DelayedLink:
    """A link from this machine (`near`) to a namespace (`far`). Rates are in megabits per second, 0 for no limit."""

    folder: Path
    one_way_ms: float = 25.0
    up_mbit: float = 0.0
    down_mbit: float = 0.0
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> DelayedLink:
        """Create both ends with their addresses. `prefix` is the prefix of commands that run at the far end."""
        # Two numbers give names and subnets that no other test process on this machine uses.
        number = (os.getpid() * 61 + next(_numbers)) % 16000
        self.namespace, ends = f"hs{number}", (f"hsn{number}", f"hsf{number}")
        third, fourth = divmod(number * 4, 256)
        self.near, self.far = f"10.77.{third}.{fourth + 1}", f"10.77.{third}.{fourth + 2}"
        program = self.folder / "delayline"
        self.folder.mkdir(parents=True, exist_ok=True)
        if not program.exists():
            _run("cc", "-O2", "-o", str(program), str(SOURCE))
        rates = [str(int(mbit * 1e6 / 8)) for mbit in (self.up_mbit, self.down_mbit)]
        argv = [str(program), *ends, str(int(self.one_way_ms * 1000)), *rates, str(QUEUE_BYTES)]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE)
        assert self.process.stdout
        assert self.process.stdout.readline() == b"up\n", "the delay line did not come up"
        _run("ip", "netns", "add", self.namespace)
        _run("ip", "link", "set", ends[1], "netns", self.namespace)
        _run("ip", "addr", "add", f"{self.near}/30", "dev", ends[0])
        _run("ip", "link", "set", ends[0], "up", "txqueuelen", "5000")
        inside = ("ip", "-n", self.namespace)
        _run(*inside, "addr", "add", f"{self.far}/30", "dev", ends[1])
        _run(*inside, "link", "set", ends[1], "up", "txqueuelen", "5000")
        _run(*inside, "link", "set", "lo", "up")
        return self

    @property
    def prefix(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.namespace)

    def cut(self) -> None:
        """Drop all packets in both directions, without an error on either side."""
        assert self.process
        self.process.send_signal(signal.SIGUSR1)

    def mend(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGUSR2)

    def close(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
        if hasattr(self, "namespace"):
            subprocess.run(["ip", "netns", "del", self.namespace], check=False, capture_output=True)
