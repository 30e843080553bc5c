"""Start an agent on a host: find a Python, send the payload, and check the agent's greeting."""

from __future__ import annotations

import random
import re
import secrets
import time
from collections.abc import Iterator

from remote.errors import AgentEnded, ConnectionLost, Garbled, HalfstepError, HostUnfit, HungUp
from remote.host import Json
from remote.link.bootstrap import BootstrapRequest, bootstrap_argv
from remote.link.bundle import payload_bundle
from remote.link.container import no_container
from remote.link.frame_reader import FrameReader
from remote.link.pythons import find_python
from remote.link.streams import LocalStarter, Starter
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.frames import BadFrame, hello, parse_json
from remote.protocol.hidden import message_lines
from remote.protocol.layout import OTHER_WORKDIR, TRUST_OWNER
from remote.protocol.shell import on_host, shell_command

ACCOUNT = r"[A-Za-z0-9_][A-Za-z0-9_.@$-]{0,63}"
"""The name of an account that may be part of a hint."""
UNMAPPED = "unmapped"
"""The name that the bootstrap program prints for an owner that a user namespace does not map."""
GREETING_TIMEOUT_S = 60.0
START_LIMIT_S = 300.0
"""The time limit for starting an agent, including the upload of the payload. No pause may exceed GREETING_TIMEOUT_S."""
CONTAINER_LIMIT_S = 3600.0
"""The time limit in a container, where an image may be pulled first. The pull prints a dot every few seconds."""
MAX_OWNERS = 100


@dataclass(frozen=True)
class Retries:
    """The number of tries, and the wait in seconds before the second try.

    Each further wait is twice as long, with jitter.
    """

    tries: int = 5
    first_wait_s: float = 0.4

    def waits(self) -> Iterator[float]:
        for number in range(self.tries - 1):
            yield self.first_wait_s * 2**number * random.uniform(0.5, 1.0)


FIVE_TRIES = Retries()


class AgentStarter:
    """Starts agents on one host, each over its own stream."""

    def __init__(
        self,
        name: str,
        starter: Starter,
        workdir: str,
        keep: bool,
        retries: Retries,
        configured_python: str = "",
        image: str = "",
        trusts_owners: bool = False,
    ) -> None:
        self._name = name
        self._starter = starter
        self._workdir = workdir
        self._keep = keep
        self._retries = retries
        self._configured_python = configured_python
        self._image = image
        self._trusts_owners = trusts_owners
        self.python = ""
        self.owners: tuple[str, ...] = ()

    def start(self, first_request: bytes = b"", waits: Iterator[float] | None = None) -> tuple[FrameReader, Json]:
        """Start an agent and return its stream and its greeting.

        Retries after HungUp and ConnectionLost, once for each of `waits`. The caller uses the same iterator for its own
        retries.
        """
        waits = self._retries.waits() if waits is None else waits
        while True:
            try:
                return self._start_once(first_request)
            except (HungUp, ConnectionLost):
                wait = next(waits, None)
                if wait is None:
                    raise
                self._starter.close()
                time.sleep(wait)

    def _start_once(self, first_request: bytes) -> tuple[FrameReader, Json]:
        self.owners = ()
        nonce = secrets.token_hex(8)
        # Over a network, sending the byte code may take longer than compiling it.
        bundle = payload_bundle(byte_code=isinstance(self._starter, LocalStarter))
        request = BootstrapRequest(nonce, bundle.sha256, self._keep, self._workdir, first_request, self._trusts_owners)
        reader = FrameReader(self._starter.start(bootstrap_argv(request, self.python)))
        mark, deadline = hello(nonce), reader.clock() + (CONTAINER_LIMIT_S if self._image else START_LIMIT_S)
        try:
            try:
                reader.skip_until(mark, GREETING_TIMEOUT_S, deadline)
            except AgentEnded:
                return self._start_with_other_python(reader, first_request)
            sent = False
            while not reader.starts_frame(GREETING_TIMEOUT_S):
                status = reader.read_line(GREETING_TIMEOUT_S).decode("utf-8", "replace").strip()
                if status.startswith("OLD"):
                    return self._start_with_other_python(reader, first_request)
                if status.startswith("OWNER ") and self._trusts_owners and len(self.owners) < MAX_OWNERS:
                    detail, _, folder = message_lines(status).removeprefix("OWNER ").partition(" ")
                    self.owners += (f"{folder} belongs to {_owner(detail)}, who can replace what runs in the workdir",)
                elif status != "NEED" or sent:
                    raise _bootstrap_failed(status, self._name)
                else:
                    sent = True
                    reader.stream.write(len(bundle.data).to_bytes(8, "big") + bundle.data, GREETING_TIMEOUT_S)
                reader.skip_until(mark, GREETING_TIMEOUT_S, deadline)
            _, body = reader.read_frame(GREETING_TIMEOUT_S)
            return reader, _parse(body, self._name)
        except BadFrame as error:
            reader.stream.close()
            raise garbled_error(self._name, error) from None
        except ConnectionLost as lost:
            reader.stream.close()
            raise _start_error(lost, reader.stream.stderr_text(), self._name) from None
        except BaseException:
            reader.stream.close()
            raise

    def _start_with_other_python(self, reader: FrameReader, first_request: bytes) -> tuple[FrameReader, Json]:
        """Start the agent with another Python of the host, because the first Python does not work. Raises HostUnfit."""
        stderr = message_lines(reader.stream.stderr_text()).strip()
        output = reader.first_line() or stderr
        reader.stream.close()
        if self._image and (problem := no_container(stderr, self._image, self._name)):
            raise problem
        if self.python:
            raise HostUnfit(f"the agent did not start under {self.python} on {self._name}: {output}", where=self._name)
        self.python = find_python(self._starter, self._name, output, self._configured_python, self._image)
        return self._start_once(first_request)


def _parse(body: bytes, name: str) -> Json:
    greeting = parse_json(body)
    python, pid = greeting.get("python"), greeting.get("pid")
    version_ok = isinstance(python, list) and all(type(part) is int for part in python)
    if not (isinstance(greeting.get("workdir"), str) and version_ok and type(pid) is int):
        raise BadFrame(f"a malformed greeting from {name}")
    return greeting


def garbled_error(name: str, error: BadFrame) -> HalfstepError:
    """Return the error for data that does not follow the frame protocol."""
    return Garbled(
        f"garbled data from {name}: {error}",
        where=name,
        hint="try again; if the error persists, another program on the host writes to the agent's output",
    )


def _start_error(lost: ConnectionLost, stderr: str, name: str) -> HalfstepError:
    last = message_lines(stderr).strip().rpartition("\n")[2]
    if not last:
        return lost
    return HostUnfit(f"the agent did not start on {name}: {last}", where=name)


def _bootstrap_failed(status: str, name: str) -> HostUnfit:
    kind, _, detail = status.partition(" ")
    if kind == "HOMELESS":
        return HostUnfit(
            f"workdir {message_lines(detail)!r}: no such home folder on {name}",
            where="workdir",
            exit_code=ExitCode.USAGE,
        )
    if kind in ("FOREIGN", "UNTRUSTED", "SHARED", "ABOVE", "THEIRS"):
        return _unsafe_folder(kind, message_lines(detail), name)
    if kind in ("DISK", "WORKDIR"):
        hint = OTHER_WORKDIR if kind == "WORKDIR" else ""
        message = f"the payload could not be stored on {name}: {message_lines(detail)}"
        return HostUnfit(message, where=name, hint=hint, exit_code=ExitCode.DISK)
    return HostUnfit(
        f"the agent did not start on {name}: {message_lines(status)}", where=name, exit_code=ExitCode.TEMPORARY
    )


def _unsafe_folder(kind: str, detail_and_folder: str, name: str) -> HostUnfit:
    """Return the error for a folder in which another user of the host could replace the payload."""
    detail, _, folder = detail_and_folder.partition(" ")
    if kind in ("FOREIGN", "UNTRUSTED"):
        message = f"{folder} on {name} belongs to another user, {_owner(detail)}"
        hint = shell_command(TRUST_OWNER, name) if kind == "UNTRUSTED" else OTHER_WORKDIR
    else:
        mode, _, owner = detail.partition(":")
        message = f"{folder} on {name} is writable by other users (mode {mode})"
        # For a folder above the workdir, the sticky bit is sufficient, and other users can still create files in the
        # folder.
        change = "go-w" if kind == "SHARED" else "+t"
        hint = f"{on_host('chmod {} {}', change, folder, host=name)}, or {OTHER_WORKDIR}"
        if kind == "THEIRS":
            hint = f"ask {_owner(owner)} for `{shell_command('chmod {} {}', change, folder)}`, or {OTHER_WORKDIR}"
    error = HostUnfit(f"{message}, who could replace the payload", where="workdir", hint=hint, exit_code=ExitCode.DISK)
    error.owner_untrusted = kind == "UNTRUSTED"
    return error


def _owner(detail: str) -> str:
    """Return the name and uid of an owner for messages. `detail` is `UID:NAME`, and NAME may be empty."""
    uid, _, name = detail.partition(":")
    if name == UNMAPPED:
        return f"a user whom the container or user namespace does not map (shown as uid {uid})"
    return f"{name} (uid {uid})" if re.fullmatch(ACCOUNT, name) else f"uid {uid}"
