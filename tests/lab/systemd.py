"""A container that boots this machine's file system under systemd, to test login and logout."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from tests.lab.wait import PATIENCE_S

COMMANDS = ("systemd-nspawn", "nsenter", "mount", "umount", "su", "useradd", "loginctl")
REPOSITORY = Path(__file__).parents[2]
INSIDE = "/opt/halfstep-lab"
NUMBERS = itertools.count(1)


def why_no_systemd() -> str:
    """The reason why no container can be booted, or "" if one can."""
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        return f"no systemd to boot in a container on this machine ({', '.join(missing)})"
    if os.getuid() != 0:
        return "booting a systemd of our own needs root"
    overlay = "overlay" in Path("/proc/filesystems").read_text()
    return "" if overlay else "no systemd to boot in a container on this machine (no overlay file system)"


TRAINER = "59000"
"""A user id that useradd gives to no account of this machine, because it starts at 1000."""


class Systemd:
    """A booted container with a user `trainer` who lingers, and a logind that kills remaining processes at logout.

    The repository is mounted read-only at /opt/halfstep-lab. All files that it writes stay in `folder`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root = folder / "root"
        self._leader = 0
        self._nspawn: subprocess.Popen[bytes] | None = None

    def start(self, *, linger: bool = True) -> Systemd:
        for name in ("upper", "work", "root"):
            (self._folder / name).mkdir(parents=True)
        layers = f"lowerdir=/,upperdir={self._folder}/upper,workdir={self._folder}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, str(self._root)], check=True)
        settings = self._root / "etc/systemd/logind.conf.d"
        settings.mkdir(parents=True, exist_ok=True)
        (settings / "halfstep.conf").write_text("[Login]\nKillUserProcesses=yes\n")
        options = ["--register=no", "--keep-unit", "--private-network", f"--bind-ro={REPOSITORY}:{INSIDE}"]
        name = f"halfstep-{os.getpid()}-{next(NUMBERS)}"
        with open(self._folder / "boot.log", "wb") as log:
            self._nspawn = subprocess.Popen(
                ["systemd-nspawn", "-D", str(self._root), "-M", name, "--boot", *options, "systemd.unit=basic.target"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._until(lambda: self._find_leader() and self.run("systemctl", "is-system-running").strip() == "running")
        self.run("systemctl", "start", "dbus", "systemd-logind")
        # The end of an account on this machine kills all processes with its user id, also those in containers.
        add, look = ("useradd", "--create-home", "--uid", TRAINER, "trainer"), ("getent", "passwd", "trainer")
        self._until(lambda: self.run(*add) or self.run(*look))  # another process may hold the lock of /etc/passwd
        if linger:
            self.run("loginctl", "enable-linger", "trainer")
            self._until(lambda: "yes" in self.run("loginctl", "list-users", "--no-legend"))
        return self

    def _find_leader(self) -> int:
        assert self._nspawn is not None
        pid = self._nspawn.pid
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            children = []
        self._leader = int(children[0]) if children else 0
        return self._leader

    def run(self, *argv: str) -> str:
        """Return the output of a command in the container, run by root outside of any session."""
        return self._run(*argv).stdout

    def _run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        command = ["nsenter", f"--target={self._leader}", "--all", *argv]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def login(self, script: str) -> str:
        """Return the output of a Python script, run by `trainer` in a login session that has ended since."""
        path = self._root / "opt" / "script.py"
        path.write_text(f"import sys\nsys.path.insert(0, {INSIDE!r})\n{script}")
        path.chmod(0o644)
        done = self._run("su", "-l", "trainer", "-c", "PATH=/usr/bin:/bin python3 /opt/script.py")
        assert done.returncode == 0, done.stderr
        self._until(lambda: "trainer" not in self.run("loginctl", "list-sessions", "--no-legend"))
        return done.stdout

    def _until(self, condition: object) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():  # type: ignore[operator]
            if time.monotonic() > deadline:
                raise TimeoutError((self._folder / "boot.log").read_text(errors="replace")[-2000:])
            time.sleep(0.1)

    def close(self) -> None:
        if self._nspawn is not None:
            # The end of its first process ends everything in the container.
            if self._find_leader():
                os.kill(self._leader, signal.SIGKILL)
            self._nspawn.kill()
            self._nspawn.wait()
        subprocess.run(["umount", "--lazy", str(self._root)], check=False, stderr=subprocess.DEVNULL)
