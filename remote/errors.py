"""What is raised when the other machine could not be looked at or acted on; each carries its exit code and one hint."""

from __future__ import annotations

from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding


class HalfstepError(Exception):
    """Could not look, or could not act. `where` names the key, file or address; `hint` is one thing to type.

    `findings` are all problems of one kind where several were found at once; they then stand for the message.
    `instead`: a word that was typed and the one that was probably meant; the hint is then the same line with that one.
    `about` names what it happened to (host, config, run), where whoever raised it could not know.
    An error never exits with 0: `exit_code` OK, as None, leaves the code of the class.
    """

    exit_code = ExitCode.BUG

    def __init__(
        self,
        message: str,
        *,
        where: str = "",
        hint: str = "",
        exit_code: ExitCode | None = None,
        findings: tuple[Finding, ...] = (),
        instead: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.findings = findings
        self.instead = instead
        self.about: dict[str, str] = {}
        if exit_code:
            self.exit_code = exit_code


class BadUsage(HalfstepError):
    """What was typed or configured cannot be meant."""

    exit_code = ExitCode.USAGE


class CannotConnect(HalfstepError):
    """No SSH server answered there in time."""

    exit_code = ExitCode.CONNECT


class NameUnknown(CannotConnect):
    """No address goes by that name."""


class HungUp(CannotConnect):
    """The server ended the connection before its first word: too many at once; worth another try."""


class SessionRefused(CannotConnect):
    """The server lets us in, and allows fewer sessions on one connection than are wanted."""


class AuthRefused(HalfstepError):
    """The server answered and wants none of our keys."""

    exit_code = ExitCode.AUTH


class HostKeyRefused(HalfstepError):
    """The server's key is unknown, changed or revoked; nothing was sent to it."""

    exit_code = ExitCode.HOST_KEY


class HostFileUntrusted(HalfstepError):
    """A project's host file redirects an ssh alias or names secrets, and the user has not confirmed it."""

    exit_code = ExitCode.HOST_KEY


class ConnectionLost(HalfstepError):
    """The line went away; what the host was doing is unknown, not dead."""

    exit_code = ExitCode.CONNECT


class AgentEnded(ConnectionLost):
    """The process on the host ended; the line to the host is well."""


class DeadlineExceeded(HalfstepError):
    """A call made no progress for longer than it may."""

    exit_code = ExitCode.CONNECT


class HostUnfit(HalfstepError):
    """The host lacks what our payload needs (no Python 3.9, a broken interpreter)."""

    exit_code = ExitCode.ENVIRONMENT


class DiskFull(HalfstepError):
    """No space, no inodes, over quota, or read-only: nothing more can be written."""

    exit_code = ExitCode.DISK


class SyncRefused(HalfstepError):
    """The tree cannot be sent as it is, or the host's tree may not be overwritten."""

    exit_code = ExitCode.SYNC


class DataUntrusted(SyncRefused):
    """A config takes data from outside of its project, and the user has not confirmed that."""


class PullRefused(HalfstepError):
    """What the host offers may not be written here."""

    exit_code = ExitCode.PULL


class Interrupted(HalfstepError):
    """The user wants no more of it; a job that was started goes on."""

    exit_code = ExitCode.INTERRUPTED


class Defect(HalfstepError):
    """Something that we do not expect of ourselves."""


class Busy(HalfstepError):
    """Somebody else holds the lock."""

    exit_code = ExitCode.BUSY


class RemoteFault(HalfstepError):
    """The payload said that it could not do what was asked; `kind` is the payload's word for why."""

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        where: str = "",
        hint: str = "",
        exit_code: ExitCode = ExitCode.BUG,
    ) -> None:
        super().__init__(message, where=where, hint=hint, exit_code=exit_code)
        self.kind = kind


class ChangeRefused(HalfstepError):
    """A read-only host was asked to change something: a defect of ours."""


class ToolFailed(HalfstepError):
    """A program of this machine that is called here is missing, or ended by itself."""

    exit_code = ExitCode.ENVIRONMENT


class Garbled(HalfstepError):
    """What the host sent is not what our program there says."""

    exit_code = ExitCode.TEMPORARY


class FixRefused(HalfstepError):
    """A file is not what it was when its fix was planned, so it was not touched."""

    exit_code = ExitCode.FIXER
