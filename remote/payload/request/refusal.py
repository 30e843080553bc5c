"""Refusals: why an operation could not be carried out."""

from __future__ import annotations

import errno
import os
from typing import Any, Dict

from remote.protocol.exits import ExitCode
from remote.protocol.layout import OTHER_WORKDIR

DISK_ERRORS = {
    errno.ENOSPC: ("no-space", "no space left on the file system"),
    errno.EDQUOT: ("quota", "disk quota exceeded, although the file system may show free space"),
    errno.EROFS: ("read-only", "the file system is read-only"),
}
FORBIDDEN = (errno.EACCES, errno.EPERM)


class Refusal(Exception):
    """An operation could not be carried out. The laptop receives it as a RemoteFault with the same message."""

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        where: str = "",
        hint: str = "",
        exit_code: ExitCode = ExitCode.BUG,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.where = where
        self.hint = hint
        self.exit_code = exit_code


def refusal_to_json(error: BaseException, workdir: str = "") -> Dict[str, Any]:
    """Encode an error for the wire: a Refusal unchanged, an OSError by its errno, any other error as a bug.

    If permission is missing inside `workdir`, the hint is to choose another workdir.
    """
    if isinstance(error, Refusal):
        return {
            "kind": error.kind,
            "message": error.message,
            "where": error.where,
            "hint": error.hint,
            "exit_code": int(error.exit_code),
        }
    if isinstance(error, OSError):
        return _from_os_error(error, workdir)
    return {"kind": "bug", "message": f"{type(error).__name__}: {error}", "exit_code": int(ExitCode.BUG)}


def _from_os_error(error: OSError, workdir: str) -> Dict[str, Any]:
    where = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else str(error.filename or "")
    if error.errno in DISK_ERRORS:
        kind, message = DISK_ERRORS[error.errno]
        return {"kind": kind, "message": message, "where": where, "exit_code": int(ExitCode.DISK)}
    if error.errno in FORBIDDEN and workdir and f"{where}/".startswith(f"{workdir}/"):
        message = f"the workdir is not accessible: {error.strerror}: {where}"
        hint = {"where": where, "hint": OTHER_WORKDIR}
        return {"kind": "permission", "message": message, **hint, "exit_code": int(ExitCode.DISK)}
    kind = {errno.ENOENT: "not-found", errno.EACCES: "permission"}.get(error.errno or 0, "os")
    return {
        "kind": kind,
        "message": f"{error.strerror or error}: {where}" if where else str(error),
        "where": where,
        "exit_code": int(ExitCode.ENVIRONMENT),
    }
