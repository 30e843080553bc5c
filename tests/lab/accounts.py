"""Accounts of this machine that last as long as a test."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

_numbers = itertools.count()


def why_no_accounts() -> str:
    """Why this machine cannot have some; empty where it can."""
    return "" if os.getuid() == 0 and shutil.which("useradd") else "accounts of one's own need root and useradd"


@dataclass
class Accounts:
    """Accounts whose homes lie under `folder`."""

    folder: Path
    made: list[str] = field(default_factory=list)

    def make(self, *, shell: str = "/bin/sh", password: str = "*") -> str:
        """The name of a new account; `password` is its line in the shadow file (`*`: none, `!`: locked)."""
        name = f"hs{os.getpid()}x{next(_numbers)}"
        home = self.folder / name
        home.mkdir()
        # pytest's folders are for their owner only; who is to have a home in one must get there.
        for folder in (self.folder, *self.folder.parents):
            if folder.stat().st_uid == os.getuid() and len(folder.parts) > 2:
                folder.chmod(folder.stat().st_mode | 0o011)
        subprocess.run(["useradd", "-M", "-d", home, "-s", shell, "-p", password, name], check=True)
        self.made.append(name)
        shutil.chown(home, name)
        return name

    def close(self) -> None:
        """They are gone, with whatever still ran in their name."""
        for name in self.made:
            end_processes_of(pwd.getpwnam(name).pw_uid)
            subprocess.run(["userdel", name], check=False, capture_output=True)


def end_processes_of(uid: int) -> None:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == uid:
                os.kill(int(folder.name), signal.SIGKILL)
