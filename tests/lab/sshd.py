"""Real OpenSSH servers on free ports of 127.0.0.1, each with its own host key, user keys and home."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from remote.link.address import Address
from tests.lab.payload import install_payload
from tests.lab.wait import PATIENCE_S

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/sftp-server", "/usr/libexec/openssh/sftp-server")
# ssh's own options for tests that measure or compare with it.
QUIET = ("-o", "BatchMode=yes", "-o", "LogLevel=ERROR")


def have_sshd() -> bool:
    return Path(SSHD).exists() and shutil.which("ssh-keygen") is not None


def make_key(path: Path, *, kind: str = "ed25519", passphrase: str = "") -> Path:
    """Return a key pair at `path`, created at the first call."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", path.name, "-f", path], check=True, timeout=60
        )
    return path


def free_port(address: str = "127.0.0.1") -> int:
    """Return a port of 127.0.0.1 that is currently free."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as sock:
        sock.bind((address, 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def nobody_listens(address: str = "127.0.0.1") -> Iterator[int]:
    """Yield a port that refuses every connection until the end of the block: bound, but not listening."""
    with socket.socket() as sock:
        sock.bind((address, 0))
        yield int(sock.getsockname()[1])


@dataclass
class Sshd:
    """One server. `root` contains its keys, configuration, log and its users' home.

    Everybody logs in as the user who runs the tests, with HOME set to an empty folder, so that it works without root
    and the real home is never read. `shell` runs commands in another login shell, as sshd would. With `used_before`,
    the default workdir has the payload that an earlier connection stored.
    """

    root: Path
    port: int = 0
    listen: str = "127.0.0.1"
    host_kinds: Sequence[str] = ("ed25519",)
    lines: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    shell: str | None = None
    prefix: Sequence[str] = ()
    used_before: bool = True
    process: subprocess.Popen[bytes] | None = None
    _orphans: list[int] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def log(self) -> str:
        """The server's log so far: one line per login attempt."""
        path = self.root / "sshd.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def user_key(self) -> Path:
        return self.root / "user_ed25519"

    @property
    def known_hosts(self) -> Path:
        """A known_hosts file that contains only this server."""
        return self.root / "known_hosts"

    def host_key(self, kind: str | None = None) -> Path:
        return self.root / f"host_{kind or self.host_kinds[0]}"

    def fingerprint(self, kind: str | None = None) -> str:
        """SHA256:... as ssh-keygen prints it."""
        argv = ["ssh-keygen", "-lf", f"{self.host_key(kind)}.pub"]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()[1]

    def known_line(self, kind: str | None = None) -> str:
        public = Path(f"{self.host_key(kind)}.pub").read_text().split()
        return f"[{self.listen}]:{self.port} {public[0]} {public[1]}\n"

    def start(self) -> Sshd:
        """Start the server; its port stays the same over a restart."""
        self.home.mkdir(parents=True, exist_ok=True)
        if self.used_before and not (self.home / "halfstep").exists():
            install_payload(self.home / "halfstep", byte_code=False)
        for kind in self.host_kinds:
            make_key(self.host_key(kind), kind=kind)
        make_key(self.user_key)
        keys = self.root / "authorized_keys"
        if not keys.exists():
            keys.write_text(Path(f"{self.user_key}.pub").read_text())
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        for _ in range(20):
            # Every port is free in a new network namespace.
            self.port = self.port or (22022 if self.prefix else free_port(self.listen))
            self.known_hosts.write_text("".join(self.known_line(kind) for kind in self.host_kinds))
            if self._listens():
                return self
            self.port = 0
        raise AssertionError(f"sshd did not start: {self.log[-2000:]}")

    def _listens(self) -> bool:
        (self.root / "sshd_config").write_text(self._config())
        log_start = len(self.log)
        with (self.root / "sshd.log").open("ab") as log:
            # -D and one more -e: in the foreground, log to stderr, so that ending the process ends the server.
            argv = [*self.prefix, SSHD, "-D", "-e", "-f", str(self.root / "sshd_config")]
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            if f"Server listening on {self.listen} port {self.port}" in self.log[log_start:]:
                return True
            time.sleep(0.01)
        return False

    def _config(self) -> str:
        # Without these settings of the tests, a training process takes twice the CPU time.
        inherited = {
            name: os.environ[name] for name in ("OMP_NUM_THREADS", "TORCHDYNAMO_DISABLE") if name in os.environ
        }
        environment = {"HOME": str(self.home), "XDG_RUNTIME_DIR": "", **inherited, **self.environment}
        # One SetEnv line: sshd applies the first and ignores the others. The path may contain spaces, so it is quoted.
        values = " ".join(f'"{key}={value}"' for key, value in environment.items())
        sftp = next((path for path in SFTP_SERVERS if Path(path).exists()), "internal-sftp")
        own = [line.split()[0].lower() for line in self.lines if line.split()]
        defaults = {
            "Port": self.port,
            "ListenAddress": self.listen,
            "PidFile": "none",
            "AuthorizedKeysFile": f'"{self.root / "authorized_keys"}"',
            "StrictModes": "no",
            "UsePAM": "no",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PermitRootLogin": "yes",
            "PermitUserEnvironment": "no",
            "MaxStartups": "100",
            "MaxSessions": "100",
            "PrintMotd": "no",
            "PrintLastLog": "no",
            "LogLevel": "VERBOSE",
            "SetEnv": values,
            "Subsystem": f"sftp {sftp}",
        }
        rows = [f"{key} {value}" for key, value in defaults.items() if key.lower() not in own]
        rows += [f'HostKey "{self.host_key(kind)}"' for kind in self.host_kinds]
        if self.shell and "forcecommand" not in own:
            rows.append(f"ForceCommand {self._login_shell()}")
        return "\n".join([*rows, *self.lines]) + "\n"

    def _login_shell(self) -> Path:
        """Return a script that runs the command in the configured shell.

        It is needed because sshd starts only the shell of the passwd file.
        """
        path = self.root / "login-shell"
        path.write_text(f'#!/bin/sh\nexec {self.shell} -c "$SSH_ORIGINAL_COMMAND"\n')
        path.chmod(0o755)
        return path

    def stop(self) -> None:
        """Stop listening. Open sessions stay open, as at a restart of the service."""
        if self.process and self.process.poll() is None:
            self._orphans = self.sessions()
            self.process.terminate()
            self.process.wait(PATIENCE_S)

    def sessions(self) -> list[int]:
        """Return the pids of sshd's children that serve connections, including those from before a restart."""
        left = [pid for pid in self._orphans if is_sshd(pid)]
        return [*left, *(children(self.process.pid) if self.process else [])]

    def kill_sessions(self, number: int = signal.SIGKILL) -> int:
        """Send the signal to all processes of open sessions; return their number."""
        pids = [pid for session in self.sessions() for pid in (session, *children(session))]
        pids = [pid for pid in pids if is_sshd(pid)]
        for pid in pids:
            os.kill(pid, number)
        return len(pids)

    def close(self) -> None:
        self.stop()
        if self.process:
            for pid in self.sessions():
                os.kill(pid, signal.SIGKILL)

    def address(self, name: str = "titan", **changes: object) -> Address:
        """Return an Address that reaches this server and trusts its key."""
        address = Address(
            name=name,
            host=self.listen,
            port=self.port,
            user=login_name(),
            identity_file=str(self.user_key),
            known_hosts=str(self.known_hosts),
            workdir=str(self.home / "halfstep"),
        )
        return replace(address, **changes)  # type: ignore[arg-type]

    def through(self, port: int, name: str = "titan", **changes: object) -> Address:
        """Return an Address through a proxy on 127.0.0.1. The server's key is known under that name too."""
        with self.known_hosts.open("a") as file:
            for kind in self.host_kinds:
                public = Path(f"{self.host_key(kind)}.pub").read_text().split()
                file.write(f"[127.0.0.1]:{port} {public[0]} {public[1]}\n")
        return self.address(name, host="127.0.0.1", port=port, **changes)

    def ssh_config(self, alias: str = "titan") -> str:
        """Return a `Host` block for ssh and for everything that reads ~/.ssh/config."""
        return (
            f"Host {alias}\n  HostName {self.listen}\n  Port {self.port}\n"
            f"  User {login_name()}\n"
            f'  IdentityFile "{self.user_key}"\n  IdentitiesOnly yes\n'
            f'  UserKnownHostsFile "{self.known_hosts}"\n'
        )


def login_name() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def children(pid: int) -> list[int]:
    """Return the live child processes of `pid`."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(word) for word in task.read_text().split()]
        except OSError:
            continue
    return found


def is_sshd(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("sshd")
    except OSError:
        return False
