"""Connect to a host and survey it in the background, while the caller loads code and reads files."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from pipeline.config.hosts import LoadedHost
from pipeline.hosts.connection import connected, survey_host
from remote.host import Host
from remote.link.prompter import Prompter
from remote.protocol.survey import Survey

Answer = queue.SimpleQueue[bool | str | None]
Question = Callable[[Prompter], bool | str | None]


class RelayedPrompter:
    """Passes questions from the connecting thread to the waiting thread, which owns the terminal."""

    def __init__(self, events: queue.SimpleQueue[tuple[Question, Answer] | None]) -> None:
        self._events = events

    def _relay(self, question: Question) -> bool | str | None:
        answer: Answer = queue.SimpleQueue()
        self._events.put((question, answer))
        return answer.get()

    def confirm(self, question: str) -> bool:
        """Return True if the answer was yes."""
        return bool(self._relay(lambda prompter: prompter.confirm(question)))

    def can_confirm(self) -> bool:
        """Return True if the user can answer yes/no questions."""
        return bool(self._relay(lambda prompter: prompter.can_confirm()))

    def secret(self, prompt: str) -> str | None:
        """Return the typed text, which is not echoed, or None if nothing was typed."""
        answer = self._relay(lambda prompter: prompter.secret(prompt))
        return answer if isinstance(answer, str) else None


class PendingHost:
    """Connects to the host and surveys it in a background thread.

    A context manager that closes the connection. With `keep` False, no files remain on the host. With `may_prompt`
    False, every question raises an error.
    """

    def __init__(self, host: LoadedHost, project: str, *, keep: bool, may_prompt: bool) -> None:
        self.keep = keep
        self._events: queue.SimpleQueue[tuple[Question, Answer] | None] = queue.SimpleQueue()
        self._prompter = RelayedPrompter(self._events) if may_prompt else None
        self._stack = contextlib.ExitStack()
        self._found: tuple[Host, Survey, float] | None = None
        self._error: BaseException | None = None
        self._abandoned = False
        threading.Thread(target=self._connect, args=(host, project), daemon=True).start()

    def _connect(self, host: LoadedHost, project: str) -> None:
        try:
            with contextlib.ExitStack() as stack:
                connection = stack.enter_context(connected(host, keep=self.keep, prompter=self._prompter))
                survey = survey_host(connection, host, project)
                self._found = connection, survey, time.time()
                if not self._abandoned:
                    self._stack = stack.pop_all()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._error = error
        self._events.put(None)

    def result(self, prompter: Prompter | None) -> tuple[Host, Survey, float]:
        """Return the open host, its survey and the Unix time of the survey.

        `prompter` answers questions in the meantime. Raises any error of the connection, the login or the survey.
        """
        while (event := self._events.get()) is not None:
            question, answer = event
            try:
                answer.put(question(prompter) if prompter is not None else None)
            except BaseException:
                answer.put(None)
                raise
        if self._error is not None:
            raise self._error
        assert self._found is not None
        return self._found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._abandoned = True
        self._stack.close()
