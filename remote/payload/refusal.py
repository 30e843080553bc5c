"""How an operation of the payload says that it could not do what was asked."""

from __future__ import annotations

import errno
from typing import Any, Dict

from remote.protocol.exits import ExitCode

DISK_ERRORS = {
    errno.ENOSPC: ("no-space", "no space left on the file system"),
    errno.EDQUOT: ("quota", "over the disk quota, although the file system may show free space"),
    errno.EROFS: ("read-only", "the file system is read-only"),
}


class Refusal(Exception):
    """Could not look, or could not act; reaches the laptop as a RemoteFault with the same words."""

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


def refusal_to_json(error: BaseException) -> Dict[str, Any]:
    """The words of an error for the wire: a Refusal's own, an OSError's by errno, anything else as a bug."""
    if isinstance(error, Refusal):
        return {
            "kind": error.kind,
            "message": error.message,
            "where": error.where,
            "hint": error.hint,
            "exit_code": int(error.exit_code),
        }
    if isinstance(error, OSError):
        return _from_os_error(error)
    return {"kind": "bug", "message": f"{type(error).__name__}: {error}", "exit_code": int(ExitCode.BUG)}


def _from_os_error(error: OSError) -> Dict[str, Any]:
    where = str(error.filename or "")
    if error.errno in DISK_ERRORS:
        kind, message = DISK_ERRORS[error.errno]
        return {"kind": kind, "message": message, "where": where, "exit_code": int(ExitCode.DISK)}
    kind = {errno.ENOENT: "not-found", errno.EACCES: "permission"}.get(error.errno or 0, "os")
    return {
        "kind": kind,
        "message": f"{error.strerror or error}: {where}" if where else str(error),
        "where": where,
        "exit_code": int(ExitCode.ENVIRONMENT),
    }
