"""Which machine a host name means: an ssh alias, a shipped host file, or the project's own host file."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.user import User
from tests.lab.sshd import Sshd

StartSshd = Callable[..., Sshd]


def names(user: User, name: str, server: Sshd) -> None:
    """The user's own ~/.ssh/config has an alias for the server."""
    config = user.home / ".ssh" / "config"
    config.parent.mkdir(mode=0o700, exist_ok=True)
    keys = {
        "HostName": server.listen,
        "Port": server.port,
        "IdentityFile": server.user_key,
        "UserKnownHostsFile": server.known_hosts,
    }
    config.write_text(f"Host {name}\n" + "".join(f"  {key} {value}\n" for key, value in keys.items()))


@pytest.mark.parametrize("name", ["cloud", "titan"])
def test_an_alias_takes_precedence_over_a_shipped_host_file(user: User, sshd: Sshd, name: str) -> None:
    names(user, name, sshd)
    result = user.run_pipeline("hosts", "check", name)
    assert f"@{sshd.listen}:{sshd.port}" in result.out, result.err
    assert "halfstep@" not in result.out and "capability 7.5" not in result.out


def test_SE_13_a_cloned_project_cannot_redirect_an_alias_unnoticed(user: User, start_sshd: StartSshd) -> None:
    mine, theirs = start_sshd("titan"), start_sshd("theirs")
    names(user, "titan", mine)
    user.write_host_file("titan", theirs)
    (user.project / "configs" / "plain.yaml").write_text("project: .\ncommand: [python, look.py]\n")
    for words in (("hosts", "check", "titan"), ("run", "--host", "titan", "--config", "plain", "--yes")):
        result = user.run_pipeline(*words)
        assert (result.code, f":{theirs.port}" in result.err) == (12, True), result.err
    assert "Accepted publickey" not in theirs.log + mine.log
    assert user.answer_pipeline(["y"], "hosts", "check", "titan")[1].count("Do you trust this file?") == 1
    assert "Accepted publickey" in theirs.log and "Accepted publickey" not in mine.log
    assert f"titan is {user.project}" in user.run_pipeline("hosts", "check", "titan").out
