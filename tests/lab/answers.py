"""A scripted person at a terminal, and servers that are not SSH servers."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass
class Person:
    """Answers confirm() with `yes` and secret() with `secrets` in turn (then None), and records the questions."""

    yes: bool = True
    secrets: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)

    def confirm(self, question: str) -> bool:
        self.questions.append(question)
        return self.yes

    def can_confirm(self) -> bool:
        return True

    def secret(self, prompt: str) -> str | None:
        self.questions.append(prompt)
        return self.secrets.pop(0) if self.secrets else None


class Interrupts:
    """Presses Ctrl-C at the first question."""

    def confirm(self, question: str) -> bool:
        raise KeyboardInterrupt

    def can_confirm(self) -> bool:
        return True

    def secret(self, prompt: str) -> str | None:
        raise KeyboardInterrupt


@contextlib.contextmanager
def server(speak: Callable[[socket.socket], None]) -> Iterator[int]:
    """Listen on a port of 127.0.0.1 and run `speak` for every client in its own thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    clients: list[socket.socket] = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                clients.append(client)
                threading.Thread(target=meet, args=(client,), daemon=True).start()

    def meet(client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            speak(client)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()
        for client in clients:
            client.close()
