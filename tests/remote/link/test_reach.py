"""A host gives the same answers over pipes and over a real SSH server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from remote.link.agent import AgentHost
from remote.link.local import local_host
from remote.link.reach import open_host
from tests.lab.payload import install_payload
from tests.lab.sshd import Sshd


@pytest.fixture(params=["local", "ssh"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgentHost]:
    workdir = str(install_payload(tmp_path / "work"))
    if request.param == "local":
        host = local_host(workdir)
    else:
        server: Sshd = request.getfixturevalue("sshd")
        host = open_host(server.address(workdir=workdir))
    yield host
    host.close()


def test_what_is_written_is_read_back_byte_for_byte(host: AgentHost) -> None:
    data = bytes(range(256)) * 5000
    host.write_bytes("a folder/näme", data, mode=0o600)
    assert host.read_bytes("a folder/näme") == data
    (entry,) = host.list_files("a folder")
    assert (entry.path, entry.size, entry.mode, entry.kind) == ("näme", len(data), 0o600, "f")


def test_argv_arrives_as_it_was_given(host: AgentHost) -> None:
    words = ["$HOME", "a b", "'", '"', "!x", "\\", "*", "\n", "-rf", ""]
    done = host.run([sys.executable, "-c", "import sys; print(sys.argv[1:])", *words])
    assert done.stdout.decode().strip() == repr(words)
    assert done.ok


def test_a_missing_file_raises_file_not_found(host: AgentHost) -> None:
    with pytest.raises(FileNotFoundError):
        host.read_bytes("nothing/here")


def test_a_command_gets_its_input_and_returns_its_exit_status(host: AgentHost) -> None:
    done = host.probe(["sh", "-c", "cat; echo oops >&2; exit 7"], stdin=b"in\0put")
    assert (done.exit, done.stdout, done.stderr) == (7, b"in\0put", b"oops\n")


def test_local_never_loads_paramiko(tmp_path: Path) -> None:
    code = (
        "import sys; from remote.link.address import Address; from remote.link.reach import open_host\n"
        f"h = open_host(Address('here', 'local', workdir={str(tmp_path)!r})); h.greeting; h.close()\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('paramiko', 'fabric', 'cryptography')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_threads_take_turns(host: AgentHost) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda n: host.probe(["echo", str(n)]).stdout.strip(), range(12)))
    assert answers == [str(n).encode() for n in range(12)]


def test_a_call_from_another_thread_connects_while_this_one_does_something_else(host: AgentHost) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(host.ask, "file.list", {"path": "nothing"})
        assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    assert answer.result() == {"entries": []}


def test_BI_60_a_host_is_reached_without_home_language_or_standard_output(sshd: Sshd) -> None:
    address = sshd.address()
    words = {key: getattr(address, key) for key in ("name", "host", "port", "user", "identity_file", "known_hosts")}
    code = (
        "import os, sys\n"
        "os.close(1)\n"
        "from remote.link.address import Address; from remote.link.reach import open_host\n"
        f"h = open_host(Address(workdir={address.workdir!r}, **{words!r}))\n"
        "assert h.probe(['echo', 'h\xe4']).stdout == 'h\xe4\\n'.encode()\n"
        "h.close()\n"
    )
    environment = {"PATH": os.environ["PATH"], "LANG": "C", "TERM": "dumb"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
