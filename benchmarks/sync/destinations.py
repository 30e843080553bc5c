"""The destinations of copies: a server on loopback, and a server behind an emulated link with delay."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.lab.delayed_link import DelayedLink, why_no_delayed_link
from tests.lab.sshd import Sshd

Row = tuple[str, str]
"""The key of a result: the case and the name of the program."""


@dataclass
class Destination:
    """A server and a folder on it.

    `seconds` contains the times of each copy; `sampled` contains the rows for which only a part was copied.
    """

    server: Sshd
    remote: Path
    round_trip_ms: int
    home: Path
    seconds: dict[Row, list[float]] = field(default_factory=dict)
    sampled: set[Row] = field(default_factory=set)

    @property
    def ssh(self) -> str:
        server = self.server
        return (
            f"ssh -p {server.port} -i {server.user_key} -o IdentitiesOnly=yes -o BatchMode=yes -F /dev/null"
            f" -o UserKnownHostsFile={server.known_hosts} -o LogLevel=ERROR"
        )

    def timed(self, case: str, name: str, act: Callable[[], None]) -> None:
        began = time.perf_counter()
        act()
        self.seconds.setdefault((case, name), []).append(time.perf_counter() - began)


@contextlib.contextmanager
def open_destinations(folder: Path) -> Iterator[list[Destination]]:
    """Yield a server on loopback and, if this machine can delay packets, a server with a round trip of 50 ms."""
    with contextlib.ExitStack() as stack:
        near = Sshd(folder / "near").start()
        stack.callback(near.close)
        home = folder / "laptop"
        home.mkdir()
        found = [Destination(near, folder / "there-near", 0, home)]
        if reason := why_no_delayed_link():
            print(f"not measured at 50 ms: {reason}", file=sys.stderr)
        else:
            line = DelayedLink(folder / "line")
            stack.callback(line.close)
            line.start()
            far = Sshd(folder / "far", listen=line.far, prefix=line.prefix)
            stack.callback(far.close)
            found.append(Destination(far.start(), folder / "there-far", 50, home))
        for destination in found:
            destination.remote.mkdir()
        yield found


def fresh(destination: Destination, number: int) -> Destination:
    """Return a destination for one round, with the payload on it.

    Nothing is deleted before a round, because a file system that has just deleted 2,000 files is slow to create files
    (ext4 examines every inode that was freed within the last minute).
    """
    folder = destination.remote / f"round-{number}"
    (folder / "halfstep").mkdir(parents=True)
    shutil.copytree(destination.remote / "halfstep" / "payload", folder / "halfstep" / "payload")
    return replace(destination, remote=folder)


def forget(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
