"""Require that a server keeps to the windows of its channels (RFC 4254, 5.2), because paramiko does not."""

from __future__ import annotations

import threading

import paramiko
from paramiko.message import Message

OPEN, CONFIRMATION, ADJUST, DATA, EXTENDED_DATA = 90, 91, 93, 94, 95
HEADERS = {DATA: 8, EXTENDED_DATA: 12}
"""The bytes before the data in the body of a message: channel, type of the extended data, and length."""


class FlowControl:
    """The number of bytes that the server may still send on each channel.

    Without this limit, a server could fill the memory: paramiko stores all data that was not read yet, even if it
    exceeds the window.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._remaining: dict[int, int] = {}
        self._unconfirmed: set[int] = set()
        self._own_numbers: dict[int, int] = {}

    def sending(self, message: bytes) -> None:
        """Record a message before it is sent: it may open a channel, or extend a window."""
        kind, body = message[0], Message(message[1:])
        with self._lock:
            if kind == OPEN:
                body.get_string()
                number = body.get_int()
                self._unconfirmed.add(number)
                self._remaining[number] = body.get_int()
            elif kind == ADJUST and (number := self._own_numbers.get(body.get_int(), -1)) in self._remaining:
                self._remaining[number] += body.get_int()

    def received(self, kind: int, body: bytes) -> None:
        """Record a message that was received. Raises SSHException if its data exceeds the window."""
        if kind not in (CONFIRMATION, *HEADERS):
            return
        message = Message(body)
        number = message.get_int()
        with self._lock:
            if kind == CONFIRMATION and number in self._unconfirmed:
                self._unconfirmed.remove(number)
                self._own_numbers[message.get_int()] = number
            elif kind in HEADERS and number in self._remaining:
                self._remaining[number] -= len(body) - HEADERS[kind]
                if self._remaining[number] < 0:
                    raise paramiko.SSHException("the server sent more data than the window of the channel allows")
