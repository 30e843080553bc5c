"""Proving who we are: every key in the order ssh would try them, then what a person can be asked for."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from paramiko.agent import AgentSSH
from paramiko.auth_handler import AuthOnlyHandler
from paramiko.common import MSG_SERVICE_ACCEPT, MSG_USERAUTH_INFO_REQUEST, cMSG_SERVICE_REQUEST, cMSG_USERAUTH_REQUEST
from paramiko.message import Message

from remote.errors import AuthRefused, HungUp
from remote.link.ask import Prompter
from remote.link.ssh.route import Station
from remote.link.ssh.transport import Transport

PASSWORD_TRIES = 3
Finish = Callable[[Message], None]
Behind = Callable[[], Callable[[], None]]
"""Sends something more on the same flight; gives what takes it back where the proof was refused."""


@dataclass
class Login:
    """What was tried, in words that name paths and never their contents."""

    station: Station
    ask: Prompter | None
    tried: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    allowed: tuple[str, ...] = ()
    granted: bool = False


class EagerAuth(AuthOnlyHandler):  # type: ignore[misc]
    """paramiko's authentication with the service request and the first proof in one flight: a round trip less."""

    def __init__(self, transport: Transport, timeout_s: float, behind: Behind | None) -> None:
        super().__init__(transport)
        self._timeout_s = timeout_s
        self._behind = behind
        self._query_accepted = False
        self._querying = False
        self.allowed: tuple[str, ...] = ()
        request = Message()
        request.add_byte(cMSG_SERVICE_REQUEST)
        request.add_string("ssh-userauth")
        transport._send_message(request)

    @property
    def _client_handler_table(self) -> dict[int, Callable[[Message], None]]:
        table: dict[int, Callable[[Message], None]] = dict(super()._client_handler_table)
        table[MSG_SERVICE_ACCEPT] = lambda message: None
        table[MSG_USERAUTH_INFO_REQUEST] = self._parse_query_accepted
        return table

    def _parse_query_accepted(self, message: Message) -> None:
        if self.auth_method != "publickey":
            self._parse_userauth_info_request(message)
            return
        self._query_accepted = True
        self.auth_event.set()

    def _parse_userauth_failure(self, message: Message) -> None:
        self.allowed = tuple(message.get_list())
        message.get_boolean()
        self.auth_event.set()

    def send_auth_request(self, username: str, method: str, finish_message: Finish | None = None) -> list[str]:
        """True to its parent's name; the answer is in `is_authenticated` and `allowed`. Raises CannotConnect."""
        self.auth_method = method
        self.username = username
        self.auth_event = threading.Event()
        message = Message()
        message.add_byte(cMSG_USERAUTH_REQUEST)
        message.add_string(username)
        message.add_string("ssh-connection")
        message.add_string(method)
        if finish_message:
            finish_message(message)
        self.transport._send_message(message)
        forget = self._behind() if self._behind and method == "publickey" and not self._querying else None
        self._wait()
        if forget and not self.is_authenticated():
            forget()
        return []

    def _wait(self) -> None:
        # A person may be answering in the handler of keyboard-interactive, which takes as long as it takes.
        deadline = time.monotonic() + (self._timeout_s if self.auth_method == "publickey" else 300.0)
        while not self.auth_event.wait(0.1):
            if not self.transport.is_active() or time.monotonic() > deadline:
                break
        if self.is_authenticated():
            return
        if not self.auth_event.is_set() or not self.transport.is_active():
            raise ConnectionAbortedError("the server hung up during authentication")

    def wants(self, username: str, key: paramiko.PKey) -> bool:
        """Whether the server would take a proof by this key: asked before anybody is asked for its passphrase."""
        kind, blob = self._get_key_type_and_bits(key)
        algorithm = self._finalize_pubkey_algorithm(kind)
        self._query_accepted = False

        def finish(message: Message) -> None:
            message.add_boolean(False)
            message.add_string(algorithm)
            message.add_string(blob)

        self._querying = True
        self.send_auth_request(username, "publickey", finish)
        self._querying = False
        return self._query_accepted


def log_in(
    transport: Transport,
    station: Station,
    ask: Prompter | None,
    timeout_s: float,
    behind: Behind | None = None,
) -> str:
    """The transport is authenticated; gives what did it. Raises AuthRefused with everything that was tried.

    `behind` is called when a key's proof has been sent and before its answer is waited for.
    """
    auth = EagerAuth(transport, timeout_s, behind)
    transport.auth_handler = auth
    login = Login(station, ask)
    agent = _agent(station)
    try:
        for offer in (_offer_keys, _offer_password):
            offer(auth, login, agent)
            if auth.is_authenticated():
                return login.tried[-1] if login.tried else "nothing was asked for"
    except ConnectionAbortedError:
        if not auth.allowed and "uthentication" not in transport.farewell:
            raise HungUp(f"{station.where} hung up during authentication", where=station.alias) from None
        login.hints.append("the server hung up: too many keys were offered; set `identity_file:` to the right one")
    finally:
        if agent:
            agent._close()
    raise _refused(login, auth.allowed)


def _agent(station: Station) -> AgentSSH | None:
    if not station.agent_socket:
        return None
    agent = AgentSSH()
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(5.0)
        connection.connect(station.agent_socket)
        agent._connect(connection)
        connection.settimeout(60.0)
    except (OSError, paramiko.SSHException):
        connection.close()
        return None
    return agent


@dataclass(frozen=True)
class Offer:
    """One key: ready to prove, or an encrypted file whose public half is known (or not)."""

    label: str
    key: paramiko.PKey | None = None
    path: Path | None = None
    public: paramiko.PKey | None = None


def _offers(login: Login, agent: AgentSSH | None) -> Iterator[Offer]:
    """Keys of the agent that are named in the configuration first, then its others, then files, as ssh has it."""
    station = login.station
    publics = {path: _public_half(Path(path)) for path in station.identity_files}
    named = {key.asbytes() for key in publics.values() if key is not None}
    held = list(agent.get_keys()) if agent else []
    mine = [key for key in held if key.asbytes() in named]
    others = [] if station.identities_only else [key for key in held if key.asbytes() not in named]
    for key in (*mine, *others):
        yield Offer(f"{key.comment or key.get_name()} (agent)", key=key)
    offered = {key.asbytes() for key in mine}
    for path, public in publics.items():
        if public is None or public.asbytes() not in offered:
            yield from _file_offer(login, Path(path), public)


def _file_offer(login: Login, path: Path, public: paramiko.PKey | None) -> Iterator[Offer]:
    try:
        mode = path.stat().st_mode
        readable = os.access(path, os.R_OK)
    except OSError:
        if login.station.identities_only:
            login.tried.append(f"{path} (not there)")
        return
    if not readable:
        login.tried.append(f"{path} (cannot be read)")
    elif mode & (stat.S_IRWXG | stat.S_IRWXO):
        login.tried.append(f"{path} (not used: others can read it, mode {stat.S_IMODE(mode):04o})")
        login.hints.append(f"chmod 600 {path}")
    else:
        try:
            yield Offer(str(path), key=paramiko.PKey.from_path(path))
        except TypeError:
            yield Offer(str(path), path=path, public=public)
        except (ValueError, paramiko.SSHException, paramiko.UnknownKeyType) as error:
            login.tried.append(f"{path} (no private key that is understood: {type(error).__name__})")


def _public_half(path: Path) -> paramiko.PKey | None:
    with contextlib.suppress(OSError, ValueError, paramiko.SSHException, paramiko.UnknownKeyType, IndexError):
        blob = paramiko.PublicBlob.from_file(f"{path}.pub")
        return paramiko.PKey.from_type_string(blob.key_type, blob.key_blob)
    return None


def _offer_keys(auth: EagerAuth, login: Login, agent: AgentSSH | None) -> None:
    user = login.station.user
    for offer in _offers(login, agent):
        key = offer.key or _opened(auth, login, offer)
        if key is None:
            continue
        login.tried.append(offer.label)
        try:
            auth.auth_publickey(user, key)
        except paramiko.SSHException as error:
            login.tried[-1] += f" (could not sign: {error})"
            continue
        if auth.is_authenticated() or (auth.allowed and "publickey" not in auth.allowed):
            return


def _opened(auth: EagerAuth, login: Login, offer: Offer) -> paramiko.PKey | None:
    assert offer.path
    if offer.public is not None and not auth.wants(login.station.user, offer.public):
        login.tried.append(offer.label)
        return None
    for number in range(PASSWORD_TRIES):
        phrase = login.ask.secret(f"Passphrase for {offer.path}: ") if login.ask else None
        if not phrase and number == 0:
            login.tried.append(f"{offer.label} (needs a passphrase, and none was given)")
            login.hints.append(f"ssh-add {offer.path}")
            return None
        if not phrase:
            break
        try:
            return paramiko.PKey.from_path(offer.path, phrase.encode())
        except (ValueError, paramiko.SSHException):
            continue
    login.tried.append(f"{offer.label} (the passphrase was not right)")
    return None


def _offer_password(auth: EagerAuth, login: Login, agent: AgentSSH | None) -> None:
    user = login.station.user
    if not auth.allowed:
        auth.send_auth_request(user, "none")
    if auth.is_authenticated():
        return
    for _ in range(PASSWORD_TRIES):
        if login.ask is None or auth.is_authenticated():
            return
        if "keyboard-interactive" in auth.allowed:
            auth.auth_interactive(user, lambda title, words, prompts: _answers(login, prompts))
        elif "password" in auth.allowed:
            word = login.ask.secret(f"Password for {login.station.where}: ")
            if not word:
                return
            auth.auth_password(user, word)
        else:
            return
        login.tried.append("password")


def _answers(login: Login, prompts: list[tuple[str, bool]]) -> list[str]:
    assert login.ask
    return [login.ask.secret(f"{login.station.where}: {prompt}") or "" for prompt, _ in prompts]


def _refused(login: Login, allowed: tuple[str, ...]) -> AuthRefused:
    station = login.station
    tried = "; ".join(dict.fromkeys(login.tried)) or "no key: none of the usual files is there and no agent holds one"
    takes = f"; it takes {', '.join(allowed)}" if allowed else ""
    port = "" if station.port == 22 else f"-p {station.port} "
    hints = list(dict.fromkeys(login.hints)) or [f"ssh-copy-id {port}{station.user}@{station.host}"]
    return AuthRefused(
        f"{station.where} let us in with nothing that was tried: {tried}{takes}",
        where=station.alias,
        hint=hints[0],
    )
