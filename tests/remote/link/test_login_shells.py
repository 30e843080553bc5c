"""Starting an agent through login shells of every kind, with output in their start-up files."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from remote.errors import HostUnfit
from remote.link.agent import AgentHost
from remote.link.agent_start import Retries
from remote.link.reach import open_host
from remote.link.streams import LocalProcessStream, ProcessStream
from tests.lab.sshd import Sshd

StartSshd = Callable[..., Sshd]
ONCE = Retries(tries=1)


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "fish", "tcsh"])
def test_BI_40_every_login_shell_starts_the_agent(start_sshd: StartSshd, shell: str) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no login shell {shell} on this machine")
    server = start_sshd(shell=path)
    host = open_host(server.address(workdir=str(server.home / "it's a $HOME `folder` !1")))
    words = ["it's", "a\nb", "$HOME", "!x", "\\", "`id`", '"']
    code = "import sys; print(sys.argv[1:])"
    assert host.probe([sys.executable, "-c", code, *words]).stdout.decode().strip() == repr(words)
    assert host.workdir == str(server.home / "it's a $HOME `folder` !1")
    host.close()


@pytest.mark.parametrize(
    "noise", ["head -c 1000000 /dev/zero | tr '\\0' x", "yes hello | head -n 100000", "printf '\\002HS\\003'"]
)
def test_BI_40_a_megabyte_from_bashrc_is_skipped(start_sshd: StartSshd, noise: str, tmp_path: Path) -> None:
    shell = tmp_path / "noisy"
    shell.write_text(f'#!/bin/sh\n{noise}\n{noise} >&2\nexec sh "$@"\n')
    shell.chmod(0o755)
    host = open_host(start_sshd(shell=str(shell)).address())
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    host.close()


def test_BI_40_a_shell_with_endless_output_is_an_error(tmp_path: Path) -> None:
    class Chatter:
        def start(self, argv: Sequence[str]) -> ProcessStream:
            return LocalProcessStream(["yes", "hello"])

        def describe(self) -> tuple[tuple[str, str], ...]:
            return ()

        def warnings(self) -> tuple[str, ...]:
            return ()

        def close(self) -> None:
            pass

    host = AgentHost("titan", Chatter(), retries=ONCE)
    with pytest.raises(HostUnfit, match="4 MiB"):
        host.probe(["true"])
