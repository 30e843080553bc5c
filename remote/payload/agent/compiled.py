"""The payload compiled once per host and Python, beside the payload: every later agent starts in half the time."""

from __future__ import annotations

import hashlib
import io
import marshal
import zipfile
from importlib.util import MAGIC_NUMBER

from remote.payload.files.atomic import write_whole

# A .pyc that is never compared with a source: flags 1, and a hash nobody looks at. PEP 552.
HEADER = MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)


def compile_payload(payload: str, target: str) -> None:
    """`target` holds the payload's modules as this Python's byte code; tracebacks still name the payload's files.

    Before the zip stands its SHA-256, which the bootstrap compares: zipimport checks nothing of what it loads.
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
    write_whole(target, hashlib.sha256(MAGIC_NUMBER + data).digest() + data, 0o600)
