"""One connection: its channels, its algorithms, and servers other than OpenSSH."""

from __future__ import annotations

import contextlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remote.errors import ConnectionLost
from remote.link.address import Address
from remote.link.agent import AgentHost
from remote.link.agent_start import Retries
from remote.link.reach import open_host
from remote.link.ssh.starter import SshStarter
from tests.lab.answers import Person
from tests.lab.delayed_link import DelayedLink
from tests.lab.sshd import Sshd, free_port, login_name, make_key
from tests.lab.wait import PATIENCE_S, until

StartSshd = Callable[..., Sshd]


def logins(server: Sshd) -> int:
    return sum("Accepted publickey for" in line for line in server.log.splitlines())


def test_all_calls_share_one_connection(sshd: Sshd) -> None:
    host = open_host(sshd.address())
    host.write_bytes("output.log", b"one\n")
    assert host.read_bytes("output.log") == b"one\n"
    for _ in range(3):
        assert host.probe(["true"]).ok
    host.close()
    assert logins(sshd) == 1


def test_following_and_asking_go_over_the_same_connection_at_the_same_time(sshd: Sshd) -> None:
    host = open_host(sshd.address())
    events = host.follow("follow.log", {"run": "run", "offset": 0})
    received: list[object] = []
    first = threading.Event()

    def read_first() -> None:
        for event in events:
            received.append(event)
            first.set()
            return

    host.write_bytes("run/jobs/1/output.log", b"line\n")
    thread = threading.Thread(target=read_first)
    thread.start()
    deadline = time.monotonic() + PATIENCE_S
    while not first.wait(0.05) and time.monotonic() < deadline:
        assert host.probe(["true"]).ok
    thread.join(PATIENCE_S)
    host.close()
    assert received
    assert logins(sshd) == 1


def test_a_server_that_allows_one_session_gets_a_connection_for_each(start_sshd: StartSshd) -> None:
    server = start_sshd(lines=["MaxSessions 1"])
    starter = SshStarter(server.address())
    first = starter.start(["sh", "-c", "echo one; cat"])
    second = starter.start(["sh", "-c", "echo two; cat"])
    assert (first.read_some(10, 10.0), second.read_some(10, 10.0)) == (b"one\n", b"two\n")
    starter.close()
    assert logins(server) == 2


def test_a_server_that_allows_no_session_is_a_connection_error(start_sshd: StartSshd) -> None:
    server = start_sshd(lines=["MaxSessions 0"])
    host = AgentHost("titan", SshStarter(server.address()), retries=Retries(tries=1))
    with pytest.raises(Exception, match=r"session|was lost") as caught:
        host.probe(["true"])
    host.close()
    assert getattr(caught.value, "exit_code", None) == 10


def test_a_follow_whose_connection_is_lost_raises_and_its_agent_ends(sshd: Sshd) -> None:
    host = open_host(sshd.address())
    host.write_bytes("run/jobs/1/output.log", b"line\n")
    events = host.follow("follow.log", {"run": "run", "offset": 0})
    next(events)
    agents = agent_pids(sshd)
    assert len(agents) == 2
    sshd.kill_sessions(signal.SIGKILL)
    with pytest.raises(ConnectionLost):
        list(events)
    host.close()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in agents), "the end of each agent with its line")


def test_a_follow_that_is_closed_ends_its_agent(sshd: Sshd) -> None:
    host = open_host(sshd.address())
    host.write_bytes("run/jobs/1/output.log", b"line\n")
    before = agent_pids(sshd)
    events = host.follow("follow.log", {"run": "run", "offset": 0})
    next(events)
    (mine,) = set(agent_pids(sshd)) - set(before)
    events.close()  # type: ignore[attr-defined]
    until(lambda: not Path(f"/proc/{mine}").exists(), "the end of the agent with its follow")
    assert host.probe(["true"]).ok
    host.close()


def agent_pids(server: Sshd) -> list[int]:
    """Return the pids of the agents on the server: processes with its home that run the bootstrap."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            home = f"HOME={server.home}".encode() in (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        is_agent = any(b"base64.b64decode(sys.argv[1])" in word for word in words)
        if home and is_agent and not words[0].endswith((b"sh", b"sshd")):
            found.append(int(folder.name))
    return found


def test_the_connection_has_strict_key_exchange_and_modern_algorithms(sshd: Sshd) -> None:
    host = open_host(sshd.address())
    assert host.probe(["true"]).ok
    output = dict(host.describe())["login"]
    host.close()
    assert "aes128-gcm@openssh.com, strict key exchange" in output


def test_an_ipv6_address_is_reached(start_sshd: StartSshd) -> None:
    try:
        free_port("::1")
    except OSError:
        pytest.skip("no IPv6 on this machine")
    server = start_sshd(listen="::1")
    for written in ("::1", "[::1]"):
        host = open_host(server.address(host=written))
        assert host.probe(["true"]).ok
        assert "[::1]" in dict(host.describe())["connect"]
        host.close()


RELAY = """
import os, socket, sys, threading
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def up():
    while data := os.read(0, 65536):
        sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while data := sock.recv(65536):
    os.write(1, data)
"""


def test_a_proxy_command_carries_the_connection(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "relay.py").write_text(RELAY)
    config = tmp_path / "config"
    config.write_text(sshd.ssh_config() + f"  ProxyCommand {sys.executable} {tmp_path}/relay.py %h %p\n")
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(config))
    host = open_host(Address("titan", "titan", workdir=str(sshd.home / "w")))
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    data = bytes(range(256)) * 20_000
    host.write_bytes("data", data)
    assert host.read_bytes("data") == data
    host.close()


@pytest.fixture
def dropbear(tmp_path: Path, account: Callable[..., str]) -> Iterator[Address]:
    """An SSH server other than OpenSSH."""
    program, keygen = shutil.which("dropbear"), shutil.which("dropbearkey")
    if program is None or keygen is None:
        pytest.skip("no dropbear on this machine")
    name = account()
    home = Path(pwd.getpwnam(name).pw_dir)
    key = make_key(tmp_path / "user")
    (home / ".ssh").mkdir(mode=0o700)
    (home / ".ssh/authorized_keys").write_text(Path(f"{key}.pub").read_text())
    for path in (home / ".ssh", home / ".ssh/authorized_keys"):
        shutil.chown(path, name)
    argv = [keygen, "-t", "ed25519", "-f", tmp_path / "host"]
    output = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    public = next(line for line in output.splitlines() if line.startswith("ssh-"))
    port = free_port()
    (tmp_path / "known").write_text(f"[127.0.0.1]:{port} {' '.join(public.split()[:2])}\n")
    process = subprocess.Popen(
        [program, "-F", "-E", "-s", "-p", f"127.0.0.1:{port}", "-r", tmp_path / "host", "-P", tmp_path / "pid"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        time.sleep(0.02)
    yield Address(
        "bear", "127.0.0.1", port=port, user=name, identity_file=str(key), known_hosts=str(tmp_path / "known")
    )
    process.terminate()
    process.wait(PATIENCE_S)


@pytest.mark.root
def test_with_a_server_other_than_openssh_each_reply_is_awaited(dropbear: Address) -> None:
    host = open_host(dropbear)
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    data = bytes(range(256)) * 20_000
    host.write_bytes("data", data)
    assert host.read_bytes("data") == data
    host.close()


def test_keys_that_are_rejected_before_the_right_one_do_no_harm(
    start_sshd: StartSshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_sshd()
    wrong = [make_key(tmp_path / f"wrong{number}") for number in range(3)]
    config = tmp_path / "config"
    files = "".join(f"  IdentityFile {path}\n" for path in wrong)
    config.write_text(
        f"Host titan\n  HostName 127.0.0.1\n  Port {server.port}\n  IdentitiesOnly yes\n{files}"
        f"  IdentityFile {server.user_key}\n  UserKnownHostsFile {server.known_hosts}\n"
    )
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(config))
    host = open_host(Address("titan", "titan", user=login_name(), workdir=str(server.home / "w")), prompter=Person())
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    host.close()
    assert logins(server) == 1


@pytest.mark.root
def test_a_cold_connection_with_an_answer_takes_fewer_round_trips_than_ssh_alone(
    start_sshd: StartSshd, start_link: Callable[..., DelayedLink], tmp_path: Path
) -> None:
    line = start_link(one_way_ms=100)
    server = start_sshd(listen=line.far, prefix=line.prefix)
    config = tmp_path / "config"
    config.write_text(server.ssh_config())
    open_host(server.address()).close()

    def ours() -> None:
        host = open_host(server.address())
        host.ask("file.list", {"path": "."})
        host.close()

    def theirs() -> None:
        subprocess.run(["ssh", "-F", config, "titan", "true"], check=True, timeout=60, capture_output=True)

    ours()
    assert fastest(ours) < 0.8 * fastest(theirs)


def fastest(work: Callable[[], None]) -> float:
    times: list[float] = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
