"""Authenticate with keys in the order of OpenSSH, then with keyboard-interactive or a password."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import paramiko

from remote.errors import AuthRefused, HungUp
from remote.link.prompter import Prompter
from remote.link.ssh.agent_keys import SIGN_TIMEOUT_S, AgentTimeout, open_agent, run_within
from remote.link.ssh.key_files import decrypt_private_key, read_private_key, read_public_key
from remote.link.ssh.route import ResolvedHop
from remote.link.ssh.transport import SshTransport
from remote.project.paths import expanded, resolved
from remote.protocol.dataclass import dataclass
from remote.protocol.shell import command_line, shell_command
from remote.protocol.text import one_line

NO_QUESTION = "keyboard-interactive (the server asked no question)"
NO_PASSWORD = "password (none was typed; without a terminal, none is asked for)"
OTHER_METHODS = (NO_QUESTION, NO_PASSWORD, "password")
MAX_QUESTION = 100
MAX_QUESTIONS = 10
PLAIN_PATH = re.compile(r"[\w./~-]+", re.ASCII)
"""The number of questions that are shown at once. Further questions are answered with an empty text."""
PROMPT_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Candidate:
    """A key to try, from the ssh-agent or a file. `key` is None for an encrypted file; `public` is None if unknown."""

    label: str
    key: paramiko.PKey | None = None
    path: Path | None = None
    public: paramiko.PKey | None = None


class ServerHungUp(Exception):
    """The server closed the connection, or did not answer, during authentication."""


class LoginStrategy(paramiko.AuthStrategy):  # type: ignore[misc]
    """The authentication on one hop.

    `tried` and `hints` contain paths, but never the contents of a file or a password.
    """

    def __init__(self, hop: ResolvedHop, prompter: Prompter | None) -> None:
        super().__init__(ssh_config=None)
        self._hop = hop
        self._prompter = None if hop.batch else prompter
        self._allowed: tuple[str, ...] = ()
        self._typed: bool | None = None
        """Whether an answer was typed to keyboard-interactive questions, or None if the server asked no question."""
        self.tried: list[str] = []
        self.hints: list[str] = []
        self._missing: list[str] = []

    @property
    def succeeded_with(self) -> str:
        """The key or method that the server accepted. `authenticate` sets it."""
        return self.tried[-1] if self.tried else "no authentication needed"

    def authenticate(self, transport: SshTransport) -> None:
        """Authenticate the connection. Raises AuthRefused, which lists every key and method that was tried."""
        agent = open_agent(self._hop.agent_socket)
        try:
            if self._try_keys(transport, agent) or self._try_prompts(transport):
                return
        except AgentTimeout as error:
            transport.close()
            self.tried[-1] += f" ({error})"
            self.hints.append("ssh-add -l")
        except ServerHungUp:
            if not self._allowed and "uthentication" not in transport.log.disconnect_reason:
                message = f"{self._hop.where} closed the connection during authentication: {transport.loss_reason()}"
                raise HungUp(message, where=self._hop.alias) from None
            self.hints.append(
                "the server closed the connection: too many keys were offered; set `identity_file:` to the right one"
            )
        finally:
            if agent:
                agent.close()
        raise self._error()

    def _attempt(self, transport: SshTransport, method: Callable[[], list[str]]) -> bool:
        """Try one method, and return True if the server accepted the login. Stores the methods that the server allows.

        Raises ServerHungUp, SSHException.
        """
        start = time.monotonic()
        try:
            self._allowed = tuple(method()) or self._allowed
        except (paramiko.BadAuthenticationType, paramiko.ssh_exception.PartialAuthentication) as error:
            self._allowed = tuple(error.allowed_types)
        except paramiko.AuthenticationException:
            if time.monotonic() - start >= transport.auth_timeout:
                raise ServerHungUp from None
        except (paramiko.SSHException, EOFError, OSError):
            if transport.is_active():
                raise
        if transport.was_authenticated:
            return True
        if not transport.is_active():
            raise ServerHungUp
        return False

    def _try_keys(self, transport: SshTransport, agent: paramiko.Agent | None) -> bool:
        if "publickey" not in self._hop.methods:
            self.tried.append("no key (the options of ssh permit none)")
            return False
        for candidate in self._candidates(agent):
            key = candidate.key or self._decrypt(transport, candidate)
            if key is None:
                continue
            self.tried.append(candidate.label)
            try:
                accepted = self._try_key(transport, candidate, key)
            except AgentTimeout:
                raise
            except paramiko.SSHException as error:
                self.tried[-1] += f" (could not sign: {error})"
                continue
            if accepted:
                return True
            if self._allowed and "publickey" not in self._allowed:
                return False
        return False

    def _try_key(self, transport: SshTransport, candidate: Candidate, key: paramiko.PKey) -> bool:
        def authenticate() -> bool:
            return self._attempt(transport, lambda: transport.auth_publickey(self._hop.user, key))

        is_from_file = candidate.path is not None
        return authenticate() if is_from_file else run_within(SIGN_TIMEOUT_S + transport.auth_timeout, authenticate)

    def _candidates(self, agent: paramiko.Agent | None) -> Iterator[Candidate]:
        """Yield the configured keys of the ssh-agent, its other keys, and the key files. This is OpenSSH's order."""
        publics = {path: read_public_key(Path(path)) for path in self._hop.identity_files}
        configured = {key.asbytes() for key in publics.values() if key is not None}
        agent_keys = sorted(agent.get_keys() if agent else (), key=lambda key: key.asbytes() not in configured)
        offered: set[bytes] = set()
        for key in agent_keys:
            if key.asbytes() in configured or not self._hop.identities_only:
                offered.add(key.asbytes())
                yield Candidate(f"{key.comment or key.get_name()} (agent)", key=key)
        for path, public in publics.items():
            if public is None or public.asbytes() not in offered:
                yield from self._from_file(Path(path), public)

    def _from_file(self, path: Path, public: paramiko.PKey | None) -> Iterator[Candidate]:
        try:
            status = path.stat()
        except OSError:
            if self._hop.identities_only:
                self.tried.append(f"{path} (not found)")
                self._missing.append(str(path))
            return
        mode = status.st_mode
        if not stat.S_ISREG(mode):
            self.tried.append(f"{path} (not a private key: not a regular file)")
        elif not os.access(path, os.R_OK):
            self.tried.append(f"{path} (not readable)")
        elif mode & (stat.S_IRWXG | stat.S_IRWXO):
            self.tried.append(f"{path} (not used: others can read it, mode {stat.S_IMODE(mode):04o})")
            self.hints.append(shell_command("chmod 600 {}", path))
        else:
            file = read_private_key(path)
            if file.problem:
                self.tried.append(f"{path} ({file.problem})")
            else:
                yield Candidate(str(path), key=file.key, path=path, public=public if file.encrypted else None)

    def _decrypt(self, transport: SshTransport, candidate: Candidate) -> paramiko.PKey | None:
        """Return the decrypted key, or None.

        The user is prompted for the passphrase only if the server would accept the key.
        """
        assert candidate.path
        if candidate.public is not None and not self._is_wanted(transport, candidate.public):
            self.tried.append(candidate.label)
            return None
        for number in range(self._hop.password_tries):
            phrase = self._prompter.secret(f"Passphrase for {candidate.path}: ") if self._prompter else None
            if not phrase and number == 0:
                self.tried.append(f"{candidate.label} (needs a passphrase, and none was given)")
                self.hints.append(shell_command("ssh-add {}", candidate.path))
                return None
            if not phrase:
                break
            file = decrypt_private_key(candidate.path, phrase)
            if file.problem:
                self.tried.append(f"{candidate.label} ({file.problem})")
                return None
            if file.key is not None:
                return file.key
        self.tried.append(f"{candidate.label} (wrong passphrase)")
        return None

    def _is_wanted(self, transport: SshTransport, public: paramiko.PKey) -> bool:
        try:
            return transport.query_key(self._hop.user, public)
        except (paramiko.SSHException, EOFError, OSError):
            raise ServerHungUp from None

    def _try_prompts(self, transport: SshTransport) -> bool:
        user = self._hop.user
        if not self._allowed and self._attempt(transport, lambda: transport.auth_none(user)):
            return True
        transport.auth_timeout = PROMPT_TIMEOUT_S
        for _ in range(self._hop.password_tries):
            if self._prompter is None:
                return False
            prompting = (method for method in self._hop.methods if method != "publickey" and method in self._allowed)
            method = next(prompting, "")
            if method == "keyboard-interactive":
                self._typed = None
                accepted = self._attempt(transport, lambda: transport.auth_interactive(user, self._answer))
                if not accepted and not self._typed:
                    self.tried.append(NO_QUESTION if self._typed is None else NO_PASSWORD)
                    return False
            elif method == "password":
                password = self._prompter.secret(f"Password for {self._hop.where}: ")
                if not password:
                    self.tried.append(NO_PASSWORD)
                    return False
                accepted = self._attempt(transport, partial(transport.auth_password, user, password, fallback=False))
            else:
                return False
            self.tried.append("password")
            if accepted:
                return True
        return False

    def _answer(self, title: str, instructions: str, prompts: list[tuple[str, bool]]) -> list[str]:
        assert self._prompter
        asked = [render_question(self._hop.where, prompt) for prompt, _ in prompts[:MAX_QUESTIONS]]
        answers = [self._prompter.secret(question) or "" for question in asked]
        if prompts:
            self._typed = any(answers)
        return answers + [""] * (len(prompts) - len(answers))

    def _error(self) -> AuthRefused:
        hop = self._hop
        tried = "; ".join(dict.fromkeys(self.tried)) or "no key: no default key file exists and no agent holds a key"
        allowed = f"; it allows {', '.join(self._allowed)}" if self._allowed else ""
        key = ["-i", own] if (own := self._own_key()) else []
        port = [] if hop.port == 22 else ["-p", str(hop.port)]
        copy_key = command_line(["ssh-copy-id", *key, *port, f"{hop.user}@{hop.host}"])
        hints = list(dict.fromkeys(self.hints)) or self._no_key_hints() or [copy_key]
        return AuthRefused(
            f"{hop.where} rejected every authentication method that was tried: {tried}{allowed}",
            where=hop.alias,
            hint=hints[0],
        )

    def _no_key_hints(self) -> list[str]:
        """Return a hint if no key was tried at all: copying one to the server cannot help. A password is no key."""
        keys = [each for each in self.tried if each not in OTHER_METHODS]
        return [missing_key_hint(self._missing[0])] if 0 < len(self._missing) == len(keys) else []

    def _own_key(self) -> str:
        """Return the path of the first configured public key in ~/.ssh.

        Returns "" if no such file exists, or if keys that are not configured are used too. Who has the private key of
        another folder is unknown: a project may contain both.
        """
        files = self._hop.identity_files if self._hop.identities_only else ()
        own = resolved(expanded("~")) / ".ssh"
        keys = (Path(f"{path}.pub") for path in files)
        return next((str(key) for key in keys if key.is_file() and resolved(key).is_relative_to(own)), "")


def missing_key_hint(path: str) -> str:
    """Return the hint for a key file that does not exist. A path with unusual characters is left to the message."""
    name = f"{path} does not exist; " if PLAIN_PATH.fullmatch(path) else ""
    return f"{name}set `identity_file:` in the host file to the path of your private key"


def render_question(server: str, prompt: str) -> str:
    """Return a question of keyboard-interactive, quoted on one line.

    Otherwise the text could look like a question of halfstep, for example for the passphrase of a key.
    """
    text = one_line(" ".join(prompt.split()))
    text = text if len(text) <= MAX_QUESTION else text[:MAX_QUESTION] + "[cut]"
    quoted = text.replace('"', "'")
    return f'The server {server} asks: "{quoted}" Answer to the server: '
