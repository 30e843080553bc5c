"""The payload's byte code, compiled once per host and Python, which halves the start-up time of later agents."""

from __future__ import annotations

import hashlib
import io
import marshal
import zipfile
from importlib.util import MAGIC_NUMBER

from remote.payload.files.atomic import write_atomic

# An unchecked hash-based .pyc: flags 1, and a hash that is never compared (PEP 552).
HEADER = MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)


def compile_payload(payload: str, target: str) -> None:
    """Compile the payload's modules with this Python and write them to `target`. Tracebacks still name the sources.

    The zip is preceded by its SHA-256, which the bootstrap verifies, because zipimport does not.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(payload) as source, zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for info in source.infolist():
            data = source.read(info)
            name = zipfile.ZipInfo(info.filename, info.date_time)
            if info.filename.endswith(".py"):
                code = compile(data, f"{payload}/{info.filename}", "exec", dont_inherit=True)
                name.filename += "c"
                data = HEADER + marshal.dumps(code)
            archive.writestr(name, data)
    data = buffer.getvalue()
    write_atomic(target, hashlib.sha256(MAGIC_NUMBER + data).digest() + data, 0o600)
