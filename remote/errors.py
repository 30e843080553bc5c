"""Exceptions for hosts and projects that cannot be examined or changed. Each exception has an exit code and a hint."""

from __future__ import annotations

from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding


class HalfstepError(Exception):
    """A check or an action could not be carried out.

    `where` names the key, file or address; `hint` is a command or setting to type. If several problems were found at
    once, `findings` holds all of them and is shown instead of the message. `instead` is a mistyped word and its
    probable correction; if it is set, the hint is the corrected command line. `about` names the host, config and run
    that the error concerns, if a caller added them. If `exit_code` is None or OK, the exit code of the class is used,
    so an error never exits with 0.
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
    """Invalid arguments or configuration."""

    exit_code = ExitCode.USAGE


class CannotConnect(HalfstepError):
    """No SSH server answered in time."""

    exit_code = ExitCode.CONNECT


class NameUnknown(CannotConnect):
    """The host name does not resolve to an address."""


class HungUp(CannotConnect):
    """The server closed the connection before its banner, often because it has too many connections.

    The connection is retried.
    """


class SessionRefused(CannotConnect):
    """The server accepted the login, but allows too few sessions per connection."""


class AuthRefused(HalfstepError):
    """The server rejected every authentication method."""

    exit_code = ExitCode.AUTH


class HostKeyRefused(HalfstepError):
    """The server's key is unknown, changed or revoked. Nothing was sent to the server."""

    exit_code = ExitCode.HOST_KEY


class HostFileUntrusted(HalfstepError):
    """A project's host file redirects an ssh alias or names secrets, and the user has not confirmed it."""

    exit_code = ExitCode.HOST_KEY


class ConnectionLost(HalfstepError):
    """The connection was lost. An operation that was running on the host may still be running."""

    exit_code = ExitCode.CONNECT


class AgentEnded(ConnectionLost):
    """The agent process on the host ended; the connection itself works."""


class DeadlineExceeded(HalfstepError):
    """A call made no progress within its timeout."""

    exit_code = ExitCode.CONNECT


class HostUnfit(HalfstepError):
    """The host does not meet a requirement of the payload, for example Python 3.9 or newer.

    If `owner_untrusted` is True, the only problem is that a folder above the workdir belongs to another user of the
    host. The user of halfstep may decide to trust that user.
    """

    exit_code = ExitCode.ENVIRONMENT
    owner_untrusted = False


class ContainerUnavailable(HostUnfit):
    """The container that the host file configures cannot be started on the host."""


class DiskFull(HalfstepError):
    """Nothing can be written: no space or inodes are free, a quota is exceeded, or the file system is read-only."""

    exit_code = ExitCode.DISK


class SyncRefused(HalfstepError):
    """The project cannot be uploaded in its current state, or the upload would overwrite files that must be kept."""

    exit_code = ExitCode.SYNC


class SecretsUntrusted(HalfstepError):
    """A project's config requests secrets from the local environment, and the user has not confirmed it."""

    exit_code = ExitCode.HOST_KEY


class DataUntrusted(SyncRefused):
    """A config uses data from outside its project, and the user has not confirmed it."""


class PullRefused(HalfstepError):
    """The host offers data that must not be written to the laptop."""

    exit_code = ExitCode.PULL


class Interrupted(HalfstepError):
    """The user interrupted the command. A job that was started continues."""

    exit_code = ExitCode.INTERRUPTED


class Defect(HalfstepError):
    """A bug in halfstep."""


class Busy(HalfstepError):
    """Another process holds the lock."""

    exit_code = ExitCode.BUSY


class RemoteFault(HalfstepError):
    """The payload refused an operation, or the operation failed; `kind` is the machine-readable reason."""

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
    """A change was requested on a read-only host, which is a bug in halfstep."""


class ToolFailed(HalfstepError):
    """A local program that halfstep calls is missing or failed."""

    exit_code = ExitCode.ENVIRONMENT


class Garbled(HalfstepError):
    """The host's answer is malformed."""

    exit_code = ExitCode.TEMPORARY


class FixRefused(HalfstepError):
    """A file changed after its fix was planned, or cannot be read. No file was rewritten."""

    exit_code = ExitCode.FIXER
