"""Becoming an agent on hosts as they are: odd shells, odd Pythons, odd folders; and leaving nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from remote.agent import AgentHost
from remote.bootstrap import Summons, bootstrap_argv
from remote.bundle import payload_bundle
from remote.errors import AgentEnded, BadUsage, HalfstepError, HostUnfit
from remote.greeting import Retries
from remote.local import local_host
from remote.protocol.exits import ExitCode
from remote.protocol.frames import MAX_JSON, hello, pack_json
from remote.reach import open_host
from remote.wire import ProcessStarter, ProcessWire, Wire
from tests.lab.sshd import Sshd

StartSshd = Callable[..., Sshd]
ONCE = Retries(tries=1)


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "fish", "tcsh"])
def test_BI_40_every_login_shell_starts_the_agent(start_sshd: StartSshd, shell: str) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"the shell {shell} is not installed")
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


def test_BI_40_a_shell_that_never_stops_talking_is_left(tmp_path: Path) -> None:
    class Chatter:
        def start(self, argv: Sequence[str]) -> Wire:
            return ProcessWire(["yes", "hello"])

        def describe(self) -> tuple[tuple[str, str], ...]:
            return ()

        def warnings(self) -> tuple[str, ...]:
            return ()

        def close(self) -> None:
            pass

    host = AgentHost("titan", Chatter(), retries=ONCE)
    with pytest.raises(HostUnfit, match="4 MiB"):
        host.probe(["true"])


def hide_pythons() -> tuple[str, ...]:
    """A prefix under which the system's Pythons are not there: nothing executable lies at their names."""
    if os.getuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mount namespaces need root")
    found = {path.resolve() for place in ("/usr/bin", "/usr/local/bin") for path in Path(place).glob("python3*")}
    found |= {
        Path(path).resolve() for name in ("python3", "python") if (path := shutil.which(name, path="/usr/bin:/bin"))
    }
    script = "".join(f"mount --bind /dev/null {path} && " for path in sorted(found) if path.is_file())
    return ("unshare", "-m", "sh", "-c", f'{script}exec "$@"', "sh")


def pretend_version(path: Path, version: tuple[int, int, int]) -> None:
    """A python3 that takes itself for another version."""
    path.write_text(
        f"#!{sys.executable} -S\nimport sys\n"
        f"sys.version_info = {(*version, 'final', 0)!r}\n"
        "code = sys.argv[sys.argv.index('-c') + 1]\n"
        "sys.argv = ['-c', *sys.argv[sys.argv.index('-c') + 2:]]\n"
        "exec(code)\n"
    )
    path.chmod(0o755)


def unfit(server: Sshd) -> HostUnfit:
    host = open_host(server.address())
    with pytest.raises(HostUnfit) as caught:
        host.probe(["true"])
    host.close()
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    return caught.value


@pytest.mark.root
def test_BI_41_no_python_lists_what_was_tried(start_sshd: StartSshd) -> None:
    error = unfit(start_sshd(prefix=hide_pythons(), environment={"PATH": "/usr/bin:/bin"}))
    assert "no Python on titan" in error.message
    for name in ("python3", "python3.9", "/usr/bin/python3", "/opt/conda/bin/python3"):
        assert name in error.message
    assert "install Python 3.9" in error.hint


@pytest.mark.root
def test_BI_42_python_36_is_told_as_found_and_too_old(start_sshd: StartSshd, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    pretend_version(tmp_path / "bin/python3", (3, 6, 15))
    error = unfit(start_sshd(prefix=hide_pythons(), environment={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}))
    assert "found 3.6.15" in error.message
    assert "need >= 3.9" in error.message


def test_BI_42_a_newer_python_further_on_is_taken(start_sshd: StartSshd, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    pretend_version(tmp_path / "bin/python3", (3, 6, 15))
    (tmp_path / "bin/python3.12").symlink_to(sys.executable)
    server = start_sshd(environment={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"})
    host = open_host(server.address())
    assert host.probe(["true"]).ok
    assert tuple(host.greeting["python"][:2]) >= (3, 9)
    host.close()


def other_interpreters() -> list[Path]:
    """Pythons that lie beside the one that runs the tests, where a version manager put them."""
    return sorted(Path(sys.base_prefix).parent.glob("[23].*/bin/python3"))


@pytest.mark.parametrize("python", other_interpreters(), ids=lambda path: path.parent.parent.name)
def test_BI_42_the_bootstrap_runs_under_old_and_new_pythons(python: Path, tmp_path: Path) -> None:
    answer = subprocess.run(
        [python, "-c", "import sys; print(sys.version_info >= (3, 9))"], capture_output=True, text=True, check=False
    )
    summons = Summons("0123", payload_bundle().sha256, keep=True, workdir=str(tmp_path))
    wire = ProcessWire(bootstrap_argv(summons, str(python)))
    said = b""
    while not said.endswith(b"\n") or said == hello("0123"):
        said += wire.read_some(1000, 20.0)
    wire.close()
    if answer.stdout.strip() == "True":
        assert said == hello("0123") + b"NEED\n"
        host = local_host(str(tmp_path))
        host._greeter.python = str(python)
        assert host.probe(["true"]).ok
        host.close()
    else:
        assert b"OLD 3." in said


@pytest.mark.root
@pytest.mark.parametrize("broken", ["link", "interpreter", "arch"])
def test_BI_43_a_python_that_does_not_run_is_told_as_a_bad_interpreter(
    start_sshd: StartSshd, tmp_path: Path, broken: str
) -> None:
    (tmp_path / "bin").mkdir()
    break_python(tmp_path / "bin/python3", broken)
    error = unfit(start_sshd(prefix=hide_pythons(), environment={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}))
    assert "bad interpreter" in error.message
    assert str(tmp_path / "bin/python3") in error.message


@pytest.mark.parametrize("broken", ["link", "interpreter", "arch"])
def test_BI_43_a_python_that_does_not_run_is_passed_over(start_sshd: StartSshd, tmp_path: Path, broken: str) -> None:
    (tmp_path / "bin").mkdir()
    break_python(tmp_path / "bin/python3", broken)
    (tmp_path / "bin/python3.11").symlink_to(sys.executable)
    host = open_host(start_sshd(environment={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}).address())
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    host.close()


def break_python(path: Path, how: str) -> None:
    if how == "link":
        path.symlink_to("/nowhere/python3.11")
        return
    # An ELF header for a machine that nobody has.
    path.write_bytes(
        b"#!/nowhere/python\n"
        if how == "interpreter"
        else b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0\xff\xee" + bytes(44)
    )
    path.chmod(0o755)


def mounted(tmp_path: Path, options: str) -> tuple[tuple[str, ...], Path]:
    """A prefix under which a folder is a file system of its own, and the folder."""
    if os.getuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mount namespaces need root")
    folder = tmp_path / "mounted"
    folder.mkdir()
    script = f'mount -t tmpfs -o {options} none {folder} && exec "$@"'
    return ("unshare", "-m", "sh", "-c", script, "sh"), folder


@pytest.mark.root
@pytest.mark.parametrize(
    ("options", "words"),
    [("size=16k", "No space left"), ("nr_inodes=3", "No space left"), ("ro", "Read-only file system")],
)
def test_BI_46_a_disk_that_takes_no_payload_is_told(
    start_sshd: StartSshd, tmp_path: Path, options: str, words: str
) -> None:
    prefix, folder = mounted(tmp_path, options)
    host = open_host(start_sshd(prefix=prefix).address(workdir=str(folder / "halfstep")))
    with pytest.raises(HostUnfit, match=words) as caught:
        host.probe(["true"])
    host.close()
    assert caught.value.exit_code is ExitCode.DISK
    assert ("`workdir:`" in caught.value.hint) is (options == "ro")
    assert str(folder) in caught.value.message
    assert f"{len(payload_bundle().data)} bytes needed" in caught.value.message


@pytest.mark.root
@pytest.mark.parametrize("options", ["size=16k", "ro"])
def test_BI_46_a_full_disk_can_still_be_looked_at(start_sshd: StartSshd, tmp_path: Path, options: str) -> None:
    prefix, folder = mounted(tmp_path, options)
    host = open_host(start_sshd(prefix=prefix).address(workdir=str(folder / "halfstep")), keep=False)
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    host.close()


@pytest.mark.root
def test_BI_46_a_disk_that_runs_nothing_holds_the_payload_all_the_same(start_sshd: StartSshd, tmp_path: Path) -> None:
    prefix, folder = mounted(tmp_path, "noexec")
    host = open_host(start_sshd(prefix=prefix).address(workdir=str(folder / "halfstep")))
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    host.close()


@pytest.mark.parametrize("name", ["with space", "it's", 'a"b', "$HOME", "-rf", "a;b", "näme", "*", "{host}", "a\\b"])
def test_BI_47_a_workdir_of_any_name_is_that_folder(sshd: Sshd, name: str) -> None:
    host = open_host(sshd.address(workdir=str(sshd.home / name)))
    host.write_bytes("file", b"x")
    assert (sshd.home / name / "file").read_bytes() == b"x"
    host.close()


def test_BI_47_tilde_is_the_home_there(sshd: Sshd) -> None:
    host = open_host(sshd.address(workdir="~/half step"))
    assert host.workdir == str(sshd.home / "half step")
    host.close()


def test_BI_47_a_relative_workdir_lies_in_the_home(sshd: Sshd) -> None:
    host = open_host(sshd.address(workdir="work"))
    assert host.workdir == str(sshd.home / "work")
    host.close()


@pytest.mark.parametrize("workdir", ["~nobody-of-that-name/x", "a\nb", "a\0b", ""])
def test_BI_47_a_workdir_that_cannot_be_is_refused(sshd: Sshd, workdir: str) -> None:
    with pytest.raises((BadUsage, HostUnfit)) as caught:
        open_host(sshd.address(workdir=workdir)).probe(["true"])
    assert "workdir" in caught.value.message or workdir in caught.value.message


class Says:
    """A starter whose process says what it is told to, with NONCE replaced by the one that was asked for."""

    def __init__(self, *words: bytes) -> None:
        self._words = words

    def start(self, argv: Sequence[str]) -> Wire:
        # The search is told the nonce first, the agent after its own program.
        nonce = argv[min(5, len(argv) - 1)]
        ours, theirs = socket.socketpair()
        for word in self._words:
            theirs.sendall(word.replace(b"NONCE", nonce.encode()))
        theirs.shutdown(socket.SHUT_WR)
        return SocketWire(ours, theirs)

    def describe(self) -> tuple[tuple[str, str], ...]:
        return ()

    def warnings(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        pass


class SocketWire:
    def __init__(self, ours: socket.socket, theirs: socket.socket) -> None:
        self._ours, self._theirs = ours, theirs

    def read_some(self, limit: int, timeout_s: float) -> bytes:
        data = self._ours.recv(limit)
        if not data:
            raise AgentEnded("ended")
        return data

    def write(self, data: bytes, timeout_s: float) -> None:
        self._ours.sendall(data)

    @property
    def in_flight(self) -> int | None:
        return None

    def last_words(self) -> str:
        return ""

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


GREETING = pack_json({"workdir": "/w", "payload": "/p", "python": [3, 11, 0], "pid": 1})
HUGE = b"J" + (MAX_JSON + 1).to_bytes(4, "big")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([hello("wrong"), GREETING], ExitCode.ENVIRONMENT),
        ([hello("NONCE"), b"J\0\0\0\x02[]"], ExitCode.TEMPORARY),
        ([hello("NONCE"), b"J\0\0\0\x02{}"], ExitCode.TEMPORARY),
        ([hello("NONCE"), b"J\0\0\0\x03{x}"], ExitCode.TEMPORARY),
        ([hello("NONCE"), HUGE], ExitCode.TEMPORARY),
        ([hello("NONCE"), GREETING, HUGE], ExitCode.TEMPORARY),
        ([hello("NONCE"), GREETING, b"X\0\0\0\0"], ExitCode.TEMPORARY),
        ([hello("NONCE"), GREETING, pack_json({"neither": 1})], ExitCode.TEMPORARY),
        ([hello("NONCE"), GREETING, pack_json({"ok": "yes", "result": {}})], ExitCode.TEMPORARY),
        ([hello("NONCE"), b"WHAT\x1b[2J ever\n"], ExitCode.TEMPORARY),
        ([hello("NONCE"), b"y" * 100_000], ExitCode.ENVIRONMENT),
        ([hello("NONCE"), b"DISK 28 No space left on device\n"], ExitCode.DISK),
        ([hello("NONCE"), b"WORKDIR Permission denied\n"], ExitCode.DISK),
    ],
)
def test_BI_56_what_is_not_our_agent_is_refused_without_being_swallowed(words: list[bytes], code: ExitCode) -> None:
    host = AgentHost("titan", Says(*words), retries=ONCE)
    with pytest.raises(HalfstepError) as caught:
        host.ask("file.list", {"path": "x"})
    assert caught.value.exit_code is code
    assert "\x1b" not in caught.value.message


def temporary_files() -> set[str]:
    folder = Path(os.environ.get("TMPDIR", "/tmp"))
    return {path.name for path in folder.glob(".hs-part-*")}


def test_a_host_that_is_only_looked_at_keeps_nothing(sshd: Sshd) -> None:
    before = temporary_files()
    host = open_host(sshd.address(workdir="~/halfstep"), keep=False)
    assert host.probe(["true"]).ok
    pid = host.greeting["pid"]
    assert host.list_files(".") == ()
    os.kill(pid, signal.SIGKILL)
    host.close()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    assert list(sshd.home.iterdir()) == []
    assert temporary_files() <= before


def test_a_kept_payload_is_stored_once_under_its_hash(sshd: Sshd) -> None:
    for _ in range(2):
        host = open_host(sshd.address(workdir="~/halfstep"))
        assert host.probe(["true"]).ok
        host.close()
    stored = sshd.home / f"halfstep/payload/{payload_bundle().sha256}.pyz"
    wait_until(lambda: any(stored.parent.glob("*.zip")))
    wait_until(lambda: not any(stored.parent.glob(".hs-part-*")))
    assert stored.read_bytes() == payload_bundle().data
    names = {path.suffix for path in stored.parent.iterdir()}
    assert names <= {".pyz", ".zip"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in stored.parent.iterdir())


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
    wait_until(lambda: any(folder.glob("*.zip")))
    host.close()
    for path in folder.glob("*.zip"):
        path.write_bytes(path.read_bytes()[:5000])
    again = open_host(sshd.address(workdir="~/halfstep"))
    assert again.probe(["true"]).ok
    again.close()


def wait_until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


def test_the_agent_ends_when_its_line_does(sshd: Sshd) -> None:
    host = open_host(sshd.address())
    pid = host.greeting["pid"]
    assert Path(f"/proc/{pid}").exists()
    host.close()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), 30.0)


def test_the_agent_ends_with_its_line_while_it_is_looking(sshd: Sshd) -> None:
    host = open_host(sshd.address(), keep=False)
    pid = host.greeting["pid"]
    wire = host._connected().wire
    wire.write(pack_json({"op": "command.probe", "args": {"argv": ["sleep", "60"], "timeout_s": 60}}), 5.0)
    host.close()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), 30.0)


def test_an_agent_that_changes_something_finishes_it_first(tmp_path: Path) -> None:
    host = AgentHost("here", ProcessStarter(), workdir=str(tmp_path / "work"))
    wire = host._connected().wire
    code = f"import time; time.sleep(1); open({str(tmp_path / 'done')!r}, 'w')"
    args = {"argv": [sys.executable, "-c", code], "timeout_s": 60}
    wire.write(pack_json({"op": "command.run", "change": True, "args": args}), 5.0)
    host.close()
    wait_until((tmp_path / "done").exists)
