"""Servers whose key has a passphrase, and logins that a server rejects."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from remote.errors import AuthRefused
from remote.link.reach import open_host
from remote.protocol.exits import ExitCode
from tests.lab.answers import Person
from tests.lab.sshd import Sshd

StartSshd = Callable[..., Sshd]


def refused(server: Sshd, prompter: Person | None = None, **changes: object) -> AuthRefused:
    host = open_host(server.address(**changes), prompter=prompter)
    with pytest.raises(AuthRefused) as caught:
        host.probe(["true"])
    host.close()
    assert caught.value.exit_code is ExitCode.AUTH
    return caught.value


def locked_server(start_sshd: StartSshd) -> Sshd:
    server = start_sshd()
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", server.user_key], check=True)
    return server
