"""The payload as one reproducible zip: the same sources always give the same bytes, named by their hash."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent
EPOCH = (1980, 1, 1, 0, 0, 0)
MAIN = "import sys\nfrom remote.payload.__main__ import main\nsys.exit(main())\n"


@dataclass(frozen=True)
class Bundle:
    """A zip that `python3 -I -S` runs, and its SHA-256."""

    data: bytes
    sha256: str


@cache
def payload_bundle() -> Bundle:
    """remote/protocol and remote/payload, zipped with fixed times and order."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        _add(archive, "__main__.py", MAIN.encode())
        _add(archive, "remote/__init__.py", b"")
        for path in sorted([*PACKAGE.glob("protocol/**/*"), *PACKAGE.glob("payload/**/*")]):
            if path.is_file() and "__pycache__" not in path.parts:
                _add(archive, f"remote/{path.relative_to(PACKAGE).as_posix()}", path.read_bytes())
    data = buffer.getvalue()
    return Bundle(data, hashlib.sha256(data).hexdigest())


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    info.create_system = 3
    archive.writestr(info, data)
