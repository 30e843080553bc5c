"""KnownHostsCommand is run as ssh runs it, and its lines count as lines of known_hosts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from remote.errors import HostKeyRefused
from remote.link.reach import open_host
from remote.link.ssh.known_hosts import HostKey
from remote.link.ssh.known_hosts_command import run_known_hosts_command
from remote.link.ssh.route import ResolvedHop
from tests.lab.sshd import QUIET, Sshd, make_key
from tests.remote.link.ssh.refused_keys import attempts, refused

TOKENS = "%% %f %H %h %I %i %K %k %L %l %n %p %r %t %u"
ALIAS = {"host": "titan", "port": None, "identity_file": None, "known_hosts": None}


def use_command(server: Sshd, folder: Path, monkeypatch: pytest.MonkeyPatch, lines: str, *, more: str = "") -> Path:
    """Make `titan` an alias whose KnownHostsCommand prints the lines. Return the file with its arguments."""
    program, log = folder / "list keys", folder / "arguments"
    (folder / "lines").write_text(lines)
    program.write_text(f'#!/bin/sh\nprintf "<%s>" "$@" >> "{log}"\necho >> "{log}"\ncat "{folder}/lines"\n')
    program.chmod(0o755)
    block = server.ssh_config().replace(str(server.known_hosts), "/dev/null")
    (folder / "config").write_text(
        f'{block}  KnownHostsCommand "{program}" "a b" {TOKENS}\n  StrictHostKeyChecking accept-new\n{more}'
    )
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(folder / "config"))
    return log


def changed(server: Sshd, folder: Path, marker: str = "") -> str:
    key = server.host_key() if marker else make_key(folder / "other")
    return f"{marker}[{server.listen}]:{server.port} {' '.join(Path(f'{key}.pub').read_text().split()[:2])}\n"


@pytest.mark.parametrize("marker", ["", "@revoked "])
def test_SE_a_key_that_contradicts_the_command_is_refused_with_accept_new(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marker: str
) -> None:
    use_command(sshd, tmp_path, monkeypatch, changed(sshd, tmp_path, marker))
    error = refused(sshd, **ALIAS)
    assert ("revoked" if marker else "HAS CHANGED") in error.message
    assert "ssh-keygen" not in error.hint
    assert attempts(sshd) == []


@pytest.mark.parametrize("more", ["", "  HostKeyAlias rig\n"])
def test_the_command_gets_the_arguments_that_ssh_gives_it(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    line = sshd.known_line()
    log = use_command(sshd, tmp_path, monkeypatch, line + line.replace(line.split()[0], "rig"), more=more)
    host = open_host(sshd.address(**ALIAS))
    assert host.probe(["true"]).ok
    host.close()
    first, second = log.read_text().splitlines()
    log.unlink()
    subprocess.run(["ssh", *QUIET, "-F", tmp_path / "config", "titan", "true"], check=True, timeout=60)
    name = "<rig>" if more else f"<[{sshd.listen}]:{sshd.port}>"
    assert f"{name}<{sshd.listen}><HOSTNAME>" in second and f"{name}<{sshd.listen}><ORDER>" in first
    # In the first run, ssh gives the address for %H, without the port and the alias under which it searches the key.
    assert [first.replace(name, f"<{sshd.listen}>", 1), second] == log.read_text().splitlines()


def hop(*words: str) -> ResolvedHop:
    return ResolvedHop("titan", "titan", 22, "me", known_hosts_command=words, key_name="titan")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("/bin/sh", "-c", "echo broken >&2; exit 3"), "exit 3: broken"),
        (("/bin/echo", "%C"), "token %C"),
        (("/bin/echo", "100%"), "token %"),
        (("/nonexistent/program",), "No such file"),
    ],
)
@pytest.mark.parametrize("presented", [None, HostKey("ssh-ed25519", b"key")])
def test_SE_no_key_is_verified_if_the_command_fails(
    words: tuple[str, ...], reason: str, presented: HostKey | None
) -> None:
    with pytest.raises(HostKeyRefused) as caught:
        run_known_hosts_command(hop(*words), presented)
    assert reason in caught.value.message and "--set host.known_hosts=" in caught.value.hint


def test_a_host_without_a_command_has_no_entries() -> None:
    assert run_known_hosts_command(hop(), None) == ((), ())
