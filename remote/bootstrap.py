"""The first words on a host: find a Python, put the payload there if it is not, become its agent."""

from __future__ import annotations

import shlex

# Runs under any Python 3 (3.6 included, so that it can say that it is too old). argv: nonce, sha256, workdir, keep.
# `keep` 1 stores the payload under its hash; 0 (a verb that only looks) leaves nothing behind.
PYTHON = r"""
import sys, os
nonce, sha, workdir, keep = sys.argv[1:5]
hello = b"\x02HS" + nonce.encode() + b"\x03\n"
out = os.fdopen(os.dup(1), "wb")
if sys.version_info < (3, 9):
    out.write(hello + ("OLD %d.%d %s\n" % (sys.version_info[0], sys.version_info[1], sys.executable)).encode())
    out.flush(); sys.exit(20)
import hashlib, tempfile
folder = os.path.join(os.path.expanduser(workdir), "payload")
path = os.path.join(folder, sha + ".pyz")
def good(p):
    try:
        with open(p, "rb") as f: return hashlib.sha256(f.read()).hexdigest() == sha
    except OSError: return False
if not good(path):
    out.write(hello + b"NEED\n"); out.flush()
    size = int.from_bytes(sys.stdin.buffer.read(8), "big")
    data = sys.stdin.buffer.read(size)
    if hashlib.sha256(data).hexdigest() != sha:
        out.write(hello + b"TORN\n"); out.flush(); sys.exit(75)
    try:
        if keep == "1": os.makedirs(folder, exist_ok=True)
        fd, part = tempfile.mkstemp(prefix=".hs-part-", dir=folder if keep == "1" else None)
        with os.fdopen(fd, "wb") as f:
            f.write(data); f.flush(); os.fsync(f.fileno())
        if keep == "1": os.replace(part, path)
        else: path = part
    except OSError as error:
        out.write(hello + ("DISK %d %s\n" % (error.errno or 0, error)).encode("utf-8", "replace")); out.flush(); sys.exit(22)
os.execv(sys.executable, [sys.executable, "-I", "-S", "-B", path, "agent", nonce, path if keep == "0" else "", workdir])
"""

SHELL = r"""
for p in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python /usr/bin/python3; do
  if command -v "$p" >/dev/null 2>&1; then exec "$p" -I -S -B -c "$@"; fi
done
echo "no python3 on PATH ($PATH)" >&2
exit 127
"""


def bootstrap_argv(nonce: str, sha256: str, workdir: str, *, keep: bool) -> tuple[str, ...]:
    """The command that becomes the agent; no value of the user's reaches a shell unquoted."""
    return ("/bin/sh", "-c", SHELL, "sh", PYTHON, nonce, sha256, workdir, "1" if keep else "0")


def bootstrap_command(nonce: str, sha256: str, workdir: str, *, keep: bool) -> str:
    """The same as one line for a remote login shell (sh, bash, zsh, fish, tcsh)."""
    return "exec " + shlex.join(bootstrap_argv(nonce, sha256, workdir, keep=keep))
