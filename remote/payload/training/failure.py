"""How training says that it stops: a named failure, or a stop that was asked for."""

from __future__ import annotations

from remote.protocol.exits import ExitCode


class TrainingFailed(Exception):
    """Training cannot go on, or would be worth nothing; `name` is stable and has a page (`pipeline explain NAME`)."""

    def __init__(self, name: str, message: str, *, hint: str = "", exit_code: ExitCode = ExitCode.TRAINING) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


class Preempted(Exception):
    """SIGTERM came; the newest checkpoint holds everything up to the last optimizer step."""
