"""Temporary user accounts on this machine."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

_numbers = itertools.count()


def why_no_accounts() -> str:
    """Return the reason why this machine cannot create accounts, or "" if it can."""
    return "" if os.getuid() == 0 and shutil.which("useradd") else "accounts of one's own need root and useradd"


@dataclass
class Accounts:
    """Accounts with homes beside pytest's folders, which only their owner can read."""

    made: list[str] = field(default_factory=list)

    def make(self, *, shell: str = "/bin/sh", password: str = "*") -> str:
        """Create an account and return its name.

        `password` is its field in the shadow file (`*`: none, `!`: locked).
        """
        name = f"hs{os.getpid()}x{next(_numbers)}"
        home = Path(tempfile.mkdtemp(prefix="hs-home-"))
        home.chmod(0o755)
        subprocess.run(["useradd", "-M", "-d", home, "-s", shell, "-p", password, name], check=True)
        self.made.append(name)
        shutil.chown(home, name)
        return name

    def close(self) -> None:
        """Delete the accounts and end their processes."""
        for name in self.made:
            account = pwd.getpwnam(name)
            end_processes_of(account.pw_uid)
            shutil.rmtree(account.pw_dir, ignore_errors=True)
            # -f: a process that was killed a moment ago still counts as logged in.
            subprocess.run(["userdel", "-f", name], check=True, capture_output=True)


def end_processes_of(uid: int) -> None:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == uid:
                os.kill(int(folder.name), signal.SIGKILL)
