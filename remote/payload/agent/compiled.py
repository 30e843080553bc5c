"""Compile the payload once per host and Python version, which halves the start-up time of later agents."""

from __future__ import annotations

import hashlib
import io
import zipfile
from importlib.util import MAGIC_NUMBER

from remote.payload.files.atomic import write_atomic
from remote.protocol.byte_code import compile_module


def compile_payload(payload: str, target: str) -> None:
    """Compile the payload's modules with this Python and write them to `target`. Tracebacks still name the sources.

    The file starts with a SHA-256 digest of the zip, which the bootstrap verifies because zipimport does not.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(payload) as source, zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for info in source.infolist():
            if info.filename.endswith(".pyc"):
                continue
            data = source.read(info)
            name = zipfile.ZipInfo(info.filename, info.date_time)
            if info.filename.endswith(".py"):
                name.filename += "c"
                data = compile_module(data, f"{payload}/{info.filename}")
            archive.writestr(name, data)
    data = buffer.getvalue()
    write_atomic(target, hashlib.sha256(MAGIC_NUMBER + data).digest() + data, 0o600)
