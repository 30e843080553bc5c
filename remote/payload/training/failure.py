"""The exceptions that end training: a named failure, or a requested stop."""

from __future__ import annotations

from remote.protocol.exits import ExitCode


class TrainingFailed(Exception):
    """The training cannot continue, or it would have no useful result.

    `name` is stable and has a page (`pipeline explain NAME`).
    """

    def __init__(self, name: str, message: str, *, hint: str = "", exit_code: ExitCode = ExitCode.TRAINING) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


class Preempted(Exception):
    """The training stopped on SIGTERM. The newest checkpoint includes the last optimizer step."""
