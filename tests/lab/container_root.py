"""Root in a container's file system, alone or with other users, as on rented machines."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from remote.link.streams import LocalProcessStream, LocalStarter, ProcessStream

ROOT = "root:x:0:0:root:/root:/bin/sh"
# argv: the folder of the container, then process 1 and the command.
ENTER = r"""
set -e
at=$1; shift
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=/,upperdir=$at/layer,workdir=$at/work" "$at/root"
mount -t proc proc "$at/root/proc"
mount --rbind /dev "$at/root/dev"
mkdir -p "$at/root$at"
mount --bind "$at" "$at/root$at"
mount --bind /dev/null "$at/root/proc/1/cgroup"
[ ! -e "$at/visitor" ] || setpriv --reuid=4242 --clear-groups sleep 600 </dev/null >/dev/null 2>&1 &
exec chroot "$at/root" "$at/$INIT" -c '"$@"; exit $?' "$INIT" "$@"
"""


@dataclass(frozen=True)
class ContainerRoot(LocalStarter):
    """Starts processes in a container below `folder`, with these accounts besides root and rows of the shadow file.

    `init` is the name of process 1; only containers have another one than `init`. `mark`: /.dockerenv exists.
    `visitor`: a process of another user runs. `names` is the content of nsswitch.conf; the file is missing if it is "".
    """

    folder: Path
    accounts: str = ""
    shadow: str = ""
    init: str = "start.sh"
    mark: bool = False
    visitor: bool = False
    names: str = "passwd: files systemd\n"

    def start(self, argv: Sequence[str]) -> ProcessStream:
        layer = self.folder / "layer"
        for name in ("layer/etc", "work", "root", "layer/run"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        if not (self.folder / self.init).exists():
            self._write(layer)
        enter = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", ENTER, "sh")
        return LocalProcessStream(("env", "-u", "container", f"INIT={self.init}", *enter, str(self.folder), *argv))

    def _write(self, layer: Path) -> None:
        os.setxattr(layer / "run", "trusted.overlay.opaque", b"y")
        (layer / "etc/passwd").write_text(f"{ROOT}\n{self.accounts}")
        (layer / "etc/shadow").write_text(f"root:*:1::::::\n{self.shadow}")
        if self.names:
            (layer / "etc/nsswitch.conf").write_text(self.names)
        else:
            os.mknod(layer / "etc/nsswitch.conf", stat.S_IFCHR, os.makedev(0, 0))
        if self.mark:
            (layer / ".dockerenv").touch()
        elif os.path.exists("/.dockerenv"):
            os.mknod(layer / ".dockerenv", stat.S_IFCHR, os.makedev(0, 0))
        if self.visitor:
            (self.folder / "visitor").touch()
        (self.folder / self.init).symlink_to("/bin/sh")
