"""The files that an agent leaves on its host, and when it ends."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from remote.link.agent import AgentHost
from remote.link.bundle import payload_bundle
from remote.link.reach import open_host
from remote.link.streams import LocalStarter
from remote.protocol.frames import pack_json
from tests.lab.sshd import Sshd
from tests.lab.wait import until


@pytest.fixture
def sshd(start_sshd: Callable[..., Sshd]) -> Sshd:
    """A server to which halfstep has never connected."""
    return start_sshd(used_before=False)


def temporary_files() -> set[str]:
    folder = Path(os.environ.get("TMPDIR", "/tmp"))
    return {path.name for path in folder.glob(".hs-part-*")}


def test_a_read_only_connection_leaves_nothing_on_the_host(sshd: Sshd) -> None:
    before = temporary_files()
    host = open_host(sshd.address(workdir="~/halfstep"), keep=False)
    assert host.probe(["true"]).ok
    pid = host.greeting["pid"]
    assert host.list_files(".") == ()
    os.kill(pid, signal.SIGKILL)
    host.close()
    until(lambda: not Path(f"/proc/{pid}").exists(), "the agent's end")
    assert list(sshd.home.iterdir()) == []
    assert temporary_files() <= before


def test_a_kept_payload_is_stored_once_under_its_hash(sshd: Sshd) -> None:
    for _ in range(2):
        host = open_host(sshd.address(workdir="~/halfstep"))
        assert host.probe(["true"]).ok
        host.close()
    stored = sshd.home / f"halfstep/payload/{payload_bundle().sha256}.pyz"
    until(lambda: any(stored.parent.glob("*.zip")), "a compiled payload")
    until(lambda: not any(stored.parent.glob(".hs-part-*")), "its last part")
    assert stored.read_bytes() == payload_bundle().data
    names = {path.suffix for path in stored.parent.iterdir()}
    assert names <= {".pyz", ".zip"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in stored.parent.iterdir())


def test_a_payload_is_compiled_even_if_the_connection_ends_during_its_first_answer(sshd: Sshd) -> None:
    host = open_host(sshd.address(workdir="~/halfstep"))
    wire = host._connected().stream
    wire.write(pack_json({"op": "command.probe", "args": {"argv": ["sleep", "60"], "timeout_s": 60}}), 5.0)
    host.close()
    until(lambda: any((sshd.home / "halfstep/payload").glob("*.zip")), "a compiled payload")


def test_a_damaged_payload_is_replaced(sshd: Sshd) -> None:
    stored = sshd.home / f"halfstep/payload/{payload_bundle().sha256}.pyz"
    stored.parent.mkdir(parents=True)
    stored.write_bytes(payload_bundle().data[:-10])
    host = open_host(sshd.address(workdir="~/halfstep"))
    assert host.probe(["true"]).ok
    host.close()
    assert stored.read_bytes() == payload_bundle().data


def test_a_damaged_compiled_payload_does_not_keep_the_agent_from_starting(sshd: Sshd) -> None:
    host = open_host(sshd.address(workdir="~/halfstep"))
    host.ask("file.list", {"path": "x"})
    folder = sshd.home / "halfstep/payload"
    until(lambda: any(folder.glob("*.zip")), "a compiled payload")
    host.close()
    for path in folder.glob("*.zip"):
        path.write_bytes(path.read_bytes()[:5000])
    again = open_host(sshd.address(workdir="~/halfstep"))
    assert again.probe(["true"]).ok
    again.close()


def test_the_agent_ends_with_its_connection(sshd: Sshd) -> None:
    host = open_host(sshd.address())
    pid = host.greeting["pid"]
    assert Path(f"/proc/{pid}").exists()
    host.close()
    until(lambda: not Path(f"/proc/{pid}").exists(), "the agent's end")


def test_the_agent_ends_with_its_connection_during_a_read_only_call(sshd: Sshd) -> None:
    host = open_host(sshd.address(), keep=False)
    pid = host.greeting["pid"]
    wire = host._connected().stream
    wire.write(pack_json({"op": "command.probe", "args": {"argv": ["sleep", "60"], "timeout_s": 60}}), 5.0)
    host.close()
    until(lambda: not Path(f"/proc/{pid}").exists(), "the agent's end")


def test_an_agent_that_changes_something_finishes_it_first(tmp_path: Path) -> None:
    host = AgentHost("here", LocalStarter(), workdir=str(tmp_path / "work"))
    wire = host._connected().stream
    code = f"import time; time.sleep(1); open({str(tmp_path / 'done')!r}, 'w')"
    args = {"argv": [sys.executable, "-c", code], "timeout_s": 60}
    wire.write(pack_json({"op": "command.run", "change": True, "args": args}), 5.0)
    host.close()
    until((tmp_path / "done").exists, "what was begun")


def test_SE_03_no_process_of_this_machine_starts_in_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wire = LocalStarter().start(["pwd"])
    assert wire.read_some(100, 10.0) == b"/\n"
    wire.close()
