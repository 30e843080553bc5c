"""A rented box on this machine: root in a container's file system, an sshd, a Python, and few other programs."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.sshd import SFTP_SERVERS, Sshd, free_port

EMPTY = ("root", "run", "workspace")
"""Folders of this machine that are empty in the box."""
ABSENT = (
    "usr/bin/sudo",
    "usr/bin/systemctl",
    "usr/bin/systemd-run",
    "usr/bin/scp",
    "usr/bin/rsync",
    "usr/bin/uv",
    "opt/conda",
)
BANNER = "   ----- Welcome to the box.  ssh -p 1 root@ssh7.example -----\n"
NOISE = "echo 'Have fun!'; echo 'unset PROMPT_COMMAND' >&2\n"
ENVIRONMENT = ("PIP_", "REQUESTS_", "SSL_", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""What pip needs on this machine to find packages."""

# argv: the folders of the box, then the command to run in it.
ENTER = r"""
set -e
box=$1; shift
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=/,upperdir=$box/layer,workdir=$box/work" "$box/root"
mount -t proc proc "$box/root/proc"
mount --rbind /dev "$box/root/dev"
mkdir -p "$box/root$box"
mount --bind "$box" "$box/root$box"
[ ! -d "$box/volume" ] || mount --bind "$box/volume" "$box/root/workspace"
exec chroot "$box/root" "$@"
"""


@dataclass
class BareBox:
    """The box at `root`. `start` starts its sshd. Its processes end with it.

    Root's home folder is in the overlay, which is lost with the box. `volume`: /workspace is a mount that is kept.
    `absent` are other files of this machine that the box lacks.
    """

    root: Path
    volume: bool = True
    absent: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    shell: str | None = None

    @property
    def layer(self) -> Path:
        """The folder with every file that the box has changed or created."""
        return self.root / "layer"

    def start(self) -> Sshd:
        for name in ("layer", "work", "root", *(["volume"] if self.volume else [])):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        for name in EMPTY:
            (self.layer / name).mkdir(mode=0o755)
            os.setxattr(self.layer / name, "trusted.overlay.opaque", b"y")
        (self.layer / "run" / "sshd").mkdir()
        (self.layer / "root" / ".bashrc").write_text(NOISE)
        for path in (*ABSENT, *SFTP_SERVERS, *self.absent):
            self._hide(path.lstrip("/"))
        (self.root / "banner").write_text(BANNER)
        enter = self.root / "enter"
        enter.write_text(ENTER)
        inherited = {name: value for name, value in os.environ.items() if name.startswith(ENVIRONMENT)}
        server = Sshd(
            self.root,
            port=free_port(),
            lines=(f"Banner {self.root / 'banner'}", "Subsystem none /bin/false"),
            environment={"HOME": "/root", **inherited, **self.environment},
            prefix=("unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", str(enter), str(self.root)),
            shell=self.shell,
        )
        return server.start()

    @staticmethod
    def close(server: Sshd) -> None:
        """End every process of the box. `unshare` ignores SIGTERM, and its death kills the first of them."""
        assert server.process is not None
        server.process.kill()
        server.process.wait()

    def _hide(self, path: str) -> None:
        """Hide the file or link from the box with an overlayfs whiteout."""
        if os.path.lexists(f"/{path}"):
            place = self.layer / path
            place.parent.mkdir(parents=True, exist_ok=True)
            os.mknod(place, stat.S_IFCHR, os.makedev(0, 0))
