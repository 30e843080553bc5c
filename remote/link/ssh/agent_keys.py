"""Read the keys of an ssh-agent through paramiko's public Agent, within a deadline."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import paramiko

AGENT_TIMEOUT_S = 5.0
SIGN_TIMEOUT_S = 60.0
"""The timeout of a signature. A person may have to confirm the signature on a hardware token."""

Result = TypeVar("Result")
_environment_lock = threading.Lock()


class AgentTimeout(paramiko.SSHException):  # type: ignore[misc]
    """The ssh-agent did not answer in time."""


def open_agent(socket_path: str | None, timeout_s: float = AGENT_TIMEOUT_S) -> paramiko.Agent | None:
    """Return the ssh-agent at `socket_path`, or None if no ssh-agent answers within `timeout_s`."""
    if not socket_path:
        return None
    with _environment_lock, _auth_sock(socket_path):
        try:
            return run_within(timeout_s, paramiko.Agent)
        except (paramiko.SSHException, OSError, EOFError):
            return None


@contextlib.contextmanager
def _auth_sock(socket_path: str) -> Iterator[None]:
    """Set SSH_AUTH_SOCK temporarily, because paramiko.Agent reads the socket's path from this variable."""
    before = os.environ.get("SSH_AUTH_SOCK")
    if before == socket_path:
        yield
        return
    os.environ["SSH_AUTH_SOCK"] = socket_path
    try:
        yield
    finally:
        if before is None:
            del os.environ["SSH_AUTH_SOCK"]
        else:
            os.environ["SSH_AUTH_SOCK"] = before


def run_within(timeout_s: float, work: Callable[[], Result]) -> Result:
    """Call `work` in a daemon thread and return its result.

    Raises AgentTimeout after `timeout_s`; the thread is not stopped.
    """
    results: list[Result] = []
    errors: list[Exception] = []

    def call() -> None:
        try:
            results.append(work())
        except Exception as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(timeout_s)
    if errors:
        raise errors[0]
    if not results:
        raise AgentTimeout(f"the ssh-agent did not answer within {timeout_s:.0f} s")
    return results[0]
