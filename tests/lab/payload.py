"""A host that was used before: the payload and its byte code are installed, as an earlier connection leaves them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from remote.link.bundle import payload_bundle

# The interpreters that an agent on this machine finds: that of the tests' PATH, and that of a login over SSH.
PYTHONS = ("python3", "/usr/bin/python3")


def install_payload(workdir: Path, *, byte_code: bool = True) -> Path:
    """Return `workdir`, with the payload in it; otherwise each new host compiles it twice, in 0.4 s of CPU time.

    `byte_code` as for `payload_bundle`: True for hosts on this machine, False for hosts over SSH.
    """
    folder = workdir / "payload"
    folder.mkdir(parents=True, mode=0o700)
    for name, data in _installed(byte_code):
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o600)
    return workdir


@cache
def _installed(byte_code: bool) -> tuple[tuple[str, bytes], ...]:
    """Return the files of the folder of payloads after the housekeeping of each interpreter."""
    bundle = payload_bundle(byte_code=byte_code)
    with tempfile.TemporaryDirectory() as workdir:
        payload = Path(workdir, "payload", f"{bundle.sha256}.pyz")
        payload.parent.mkdir()
        payload.write_bytes(bundle.data)
        for python in filter(None, map(shutil.which, PYTHONS)):
            isolated = [python, "-I", "-S", "-B"]
            ask = [*isolated, "-c", "import sys; print(sys.implementation.cache_tag)"]
            tag = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
            compiled = payload.with_suffix(f".{tag}.zip")
            if not compiled.exists():
                subprocess.run([*isolated, payload, "settle", compiled, workdir], check=True)
        return tuple((file.name, file.read_bytes()) for file in sorted(payload.parent.iterdir()))
