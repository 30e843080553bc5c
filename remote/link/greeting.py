"""The first words with an agent: which Python it is, that it is ours, that it has its payload."""

from __future__ import annotations

import random
import secrets
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass

from remote.errors import AgentEnded, ConnectionLost, Garbled, HalfstepError, HostUnfit, HungUp
from remote.host import Json
from remote.link.bootstrap import Summons, bootstrap_argv
from remote.link.bundle import payload_bundle
from remote.link.container import why_no_container
from remote.link.line import Line
from remote.link.pythons import find_python
from remote.link.wire import Starter
from remote.protocol.exits import ExitCode
from remote.protocol.frames import BadFrame, hello, parse_json
from remote.protocol.layout import OTHER_WORKDIR
from remote.protocol.text import safe_text

GREETING_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Retries:
    """How often a way is tried, and the seconds before the second try; each later wait is twice as long, and random."""

    tries: int = 5
    first_wait_s: float = 0.4

    def waits(self) -> Iterator[float]:
        for number in range(self.tries - 1):
            yield self.first_wait_s * 2**number * random.uniform(0.5, 1.0)


FIVE_TRIES = Retries()


class Greeter:
    """Starts agents on one host, each over a wire of its own."""

    def __init__(
        self, name: str, starter: Starter, workdir: str, keep: bool, retries: Retries, named_python: str = ""
    ) -> None:
        self._name = name
        self._starter = starter
        self._workdir = workdir
        self._keep = keep
        self._retries = retries
        self._named_python = named_python
        self.python = ""

    def greet(self, first: bytes = b"") -> tuple[Line, Json]:
        """A new line whose agent has said who it is; tried again where the server or the way had a bad moment."""
        waits = self._retries.waits()
        while True:
            try:
                return self._greet_once(first)
            except (HungUp, ConnectionLost) as error:
                wait = next(waits, None)
                if wait is None:
                    raise
                self._starter.close()
                del error
                time.sleep(wait)

    def _greet_once(self, first: bytes) -> tuple[Line, Json]:
        nonce = secrets.token_hex(8)
        bundle = payload_bundle()
        summons = Summons(nonce, bundle.sha256, self._keep, self._workdir, first)
        line = Line(self._starter.start(bootstrap_argv(summons, self.python)))
        mark = hello(nonce)
        try:
            try:
                line.skip_noise(mark, GREETING_TIMEOUT_S)
            except AgentEnded:
                return self._greet_otherwise(line, first)
            while not line.starts_frame(GREETING_TIMEOUT_S):
                word = line.read_line(GREETING_TIMEOUT_S).decode("utf-8", "replace").strip()
                if word.startswith("OLD"):
                    return self._greet_otherwise(line, first)
                if word != "NEED":
                    raise _bootstrap_failed(word, self._name)
                line.wire.write(len(bundle.data).to_bytes(8, "big") + bundle.data, GREETING_TIMEOUT_S)
                line.skip_noise(mark, GREETING_TIMEOUT_S)
            _, body = line.read_frame(GREETING_TIMEOUT_S)
            return line, _parse(body, self._name)
        except BadFrame as error:
            line.wire.close()
            raise not_ours(self._name, error) from None
        except ConnectionLost as lost:
            line.wire.close()
            raise _died(lost, line.wire.stderr_text(), self._name) from None
        except BaseException:
            line.wire.close()
            raise

    def _greet_otherwise(self, line: Line, first: bytes) -> tuple[Line, Json]:
        """Through another Python of the host's, when the first that was found would not do. Raises HostUnfit."""
        words = safe_text(line.wire.stderr_text()).strip()
        said = line.noise() or words
        line.wire.close()
        if no_container := why_no_container(words):
            hint = "docker run --rm IMAGE true   (on the host: the same, without us)"
            raise HostUnfit(f"{self._name}: {no_container}", where=self._name, hint=hint)
        if self.python:
            raise HostUnfit(f"our agent did not start under {self.python} on {self._name}: {said}", where=self._name)
        self.python = find_python(self._starter, self._name, said, self._named_python)
        return self._greet_once(first)


def _parse(body: bytes, name: str) -> Json:
    greeting = parse_json(body)
    python, pid = greeting.get("python"), greeting.get("pid")
    version_ok = isinstance(python, list) and all(type(part) is int for part in python)
    if not (isinstance(greeting.get("workdir"), str) and version_ok and type(pid) is int):
        raise BadFrame(f"a malformed greeting from {name}")
    return greeting


def not_ours(name: str, error: BadFrame) -> HalfstepError:
    """What to raise where the other end does not keep to the frames."""
    return Garbled(
        f"what {name} sent is not what our agent says: {error}",
        where=name,
        hint="try again; if it stays so, something on the host writes into our channel",
    )


def _died(lost: ConnectionLost, words: str, name: str) -> HalfstepError:
    last = safe_text(words).strip().splitlines()
    if not last:
        return lost
    return HostUnfit(f"our agent did not start on {name}: {last[-1]}", where=name)


def _bootstrap_failed(word: str, name: str) -> HostUnfit:
    kind, _, rest = word.partition(" ")
    if kind == "HOMELESS":
        return HostUnfit(
            f"workdir {safe_text(rest)!r}: {name} has no such home", where="workdir", exit_code=ExitCode.USAGE
        )
    if kind in ("FOREIGN", "SHARED"):
        return _unsafe_folder(kind, safe_text(rest), name)
    if kind in ("DISK", "WORKDIR"):
        hint = OTHER_WORKDIR if kind == "WORKDIR" else ""
        words = f"the payload could not be stored on {name}: {safe_text(rest)}"
        return HostUnfit(words, where=name, hint=hint, exit_code=ExitCode.DISK)
    return HostUnfit(f"our agent did not start on {name}: {safe_text(word)}", where=name, exit_code=ExitCode.TEMPORARY)


def _unsafe_folder(kind: str, rest: str, name: str) -> HostUnfit:
    """Another user of the host could put code where ours is imported from."""
    detail, _, folder = rest.partition(" ")
    if kind == "FOREIGN":
        words, hint = f"{folder} on {name} belongs to another user (uid {detail})", OTHER_WORKDIR
    else:
        words = f"{folder} on {name} may be written by other users (mode {detail})"
        hint = f"chmod go-w {shlex.quote(folder)}   (on {name}), or {OTHER_WORKDIR}"
    return HostUnfit(f"{words}, who could replace what runs there", where="workdir", hint=hint, exit_code=ExitCode.DISK)
