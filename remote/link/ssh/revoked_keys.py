"""Refuse the host keys in the files of RevokedHostKeys: text files, or lists that ssh-keygen -k created."""

from __future__ import annotations

import base64
import binascii
import shutil
import subprocess
import tempfile

from remote.errors import HostKeyRefused
from remote.link.ssh.known_hosts import HostKey
from remote.link.ssh.route import ResolvedHop
from remote.protocol.regular import read_regular
from remote.protocol.shell import shell_command
from remote.protocol.text import file_lines, line_fields

MAX_FILE = 64 * 2**20
BINARY_LIST = b"SSHKRL\n\0"
QUERY_TIMEOUT_S = 30.0


def require_not_revoked(hop: ResolvedHop, presented: HostKey) -> None:
    """Raise HostKeyRefused if a file of RevokedHostKeys contains the key, or if a file cannot be read.

    ssh also refuses every key if it cannot read the file.
    """
    for path in hop.revoked_keys:
        try:
            data = read_regular(path, MAX_FILE, follow=True)
            revoked = (
                _is_in_binary_list(path, presented) if data.startswith(BINARY_LIST) else is_listed(data, presented)
            )
        except (OSError, subprocess.SubprocessError) as error:
            reason = getattr(error, "strerror", None) or error
            raise HostKeyRefused(
                f"cannot read {path} ({reason}), which RevokedHostKeys names, so no host key can be verified",
                where=path,
                hint=shell_command("ls -lL {}", path),
            ) from None
        if revoked:
            raise HostKeyRefused(
                f"{hop.alias} ({hop.where}) presents a revoked host key: {presented.fingerprint} is in {path}, which "
                "RevokedHostKeys names; nothing was sent to it",
                where=path,
            )


def is_listed(data: bytes, presented: HostKey) -> bool:
    """Return True if a text file with one public key per line contains the key."""
    rows = file_lines(data.decode("utf-8", "replace"))
    lines = (line_fields(row) for row in rows if not row.lstrip(" \t").startswith("#"))
    return any(_blob(word) == presented.blob for words in lines for word in words[:3])


def _blob(word: str) -> bytes:
    try:
        return base64.b64decode(word, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _is_in_binary_list(path: str, presented: HostKey) -> bool:
    """Query a list with ssh-keygen, whose exit status is 1 if the key is revoked. Raises OSError, SubprocessError."""
    program = shutil.which("ssh-keygen")
    if program is None:
        raise FileNotFoundError(2, "ssh-keygen, which reads this format, is not installed")
    line = f"{presented.key_type} {base64.b64encode(presented.blob).decode()}\n"
    with tempfile.NamedTemporaryFile(prefix="hs-key-", suffix=".pub") as key:
        key.write(line.encode("ascii"))
        key.flush()
        argv = [program, "-Q", "-f", path, key.name]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=QUERY_TIMEOUT_S, check=False)
    if done.returncode and b"REVOKED" not in done.stdout:
        raise OSError(0, done.stderr.decode("utf-8", "replace").strip() or "ssh-keygen failed")
    return done.returncode != 0
