"""Where the store of a process group listens: on the address that it was given, which torch alone ignores."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from remote.payload.proof.hooks.stores import ARGUMENTS, _bind_server, _bound_socket
from remote.payload.proof.injection import python_path, write_hooks
from tests.lab.ports import listening_of

SCRIPT = """
import sys
from datetime import timedelta
from torch.distributed import TCPStore

SECOND = timedelta(seconds=10)
def serves(host, port=0, **more):
    store = TCPStore(host, port, is_master=True, wait_for_workers=False, timeout=SECOND, **more)
    client = TCPStore(host, store.port, is_master=False, timeout=SECOND)
    store.set("key", host)
    assert client.get("key") == host.encode()
    return store

loopback = serves("127.0.0.1", multi_tenant=True)
again = TCPStore("127.0.0.1", loopback.port, None, True, SECOND, False, True)
again.set("shared", "yes")
assert loopback.get("shared") == b"yes"
kept = [again, serves("127.0.0.2"), serves("localhost", use_libuv=False), serves("localhost")]
print(*(one.port for one in (loopback, *kept)), flush=True)
sys.stdin.read()
"""


def start(tmp_path: Path, script: str) -> subprocess.Popen[str]:
    hooks = write_hooks(str(tmp_path / "hooks"))
    environment = {**os.environ, "PYTHONPATH": python_path(hooks, {}), "HALFSTEP_PROOF": ""}
    environment["HALFSTEP_WATCH"] = str(tmp_path)
    argv = [sys.executable, "-c", script]
    return subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_store_listens_on_its_address_only(tmp_path: Path) -> None:
    with start(tmp_path, SCRIPT) as process:
        assert process.stdout is not None
        loopback, shared, second, legacy, named = process.stdout.readline().split()
        found = listening_of({process.pid})
        process.communicate("")
    assert loopback == shared
    assert found == {
        ("127.0.0.1", int(loopback)),
        ("127.0.0.2", int(second)),
        ("127.0.0.1", int(legacy)),
        ("127.0.0.1", int(named)),
    }


@pytest.mark.parametrize(
    "arguments",
    [
        {"host_name": "127.0.0.1", "port": 0, "is_master": False},
        {"host_name": "127.0.0.1", "port": 0},
        {"host_name": "titan.example", "port": 0, "is_master": True},
        {"host_name": "192.0.2.1", "port": 0, "is_master": True},
        {"host_name": "127.0.0.1", "port": 2**16, "is_master": True},
        {"host_name": "127.0.0.1", "port": "29500", "is_master": True, "master_listen_fd": 3},
        {"port": 0, "is_master": True},
    ],
)
def test_a_client_and_an_address_of_another_machine_are_left_to_torch(arguments: dict[str, object]) -> None:
    assert _bound_socket(arguments) is None


def test_a_port_that_is_taken_is_left_to_torch() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        assert _bound_socket({"host_name": "127.0.0.1", "port": taken, "is_master": True}) is None


def test_a_store_with_libuv_that_takes_no_descriptor_is_built_without_libuv() -> None:
    calls: list[tuple[bool, str]] = []

    def build(store: object, **given: object) -> None:
        with socket.socket(fileno=os.dup(int(str(given["master_listen_fd"])))) as bound:
            calls.append((bool(given.get("use_libuv", True)), bound.getsockname()[0]))
            assert bound.getsockname()[1] == given["port"]
        if calls[-1][0]:
            raise RuntimeError("The libuv TCPStore backend does not support initialization with an listen fd.")

    _bind_server(build)(object(), "127.0.0.1", 0, None, True)
    assert calls == [(True, "127.0.0.1"), (False, "127.0.0.1")]
    assert ARGUMENTS[3] == "is_master"


def test_a_store_that_does_not_find_its_peers_fails_as_without_the_patch() -> None:
    def build(store: object, **given: object) -> None:
        raise RuntimeError("Timed out after 1 seconds waiting for clients.")

    with pytest.raises(RuntimeError, match="waiting for clients"):
        _bind_server(build)(object(), "127.0.0.1", 0, None, True)
