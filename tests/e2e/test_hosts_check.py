"""`pipeline hosts check` at a terminal and in a script."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.config.hosts import load_host
from pipeline.hosts.trust import keep_trust
from tests.lab.sshd import Sshd
from tests.lab.wait import PATIENCE_S

ROOT = Path(__file__).parents[2]
ARGV = [sys.executable, "-m", "pipeline", "hosts", "check"]


@pytest.fixture
def environment(sshd: Sshd, tmp_path: Path) -> dict[str, str]:
    """An environment in which an ssh config defines `titan` as the server."""
    config = tmp_path / "ssh_config"
    config.write_text(sshd.ssh_config())
    return {**os.environ, "HALFSTEP_SSH_CONFIG": str(config), "PYTHONPATH": str(ROOT)}


class Terminal:
    """A process whose standard streams are a terminal."""

    def __init__(self, argv: list[str], environment: dict[str, str], cwd: Path) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=cwd, start_new_session=True
        )
        os.close(slave)
        self.seen = ""

    def wait_for(self, words: str, seconds: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + seconds
        while words not in self.seen:
            assert time.monotonic() < deadline, f"did not print {words!r}: {self.seen}"
            if not self._more():
                break
        assert words in self.seen, self.seen

    def _more(self) -> bool:
        if not select.select([self._master], [], [], 0.5)[0]:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    def type(self, words: str) -> None:
        os.write(self._master, words.encode())

    def end(self) -> int:
        while self._more() and self.process.poll() is None:
            pass
        code = self.process.wait(PATIENCE_S)
        while select.select([self._master], [], [], 0)[0] and self._more():
            pass
        os.close(self._master)
        return code


def test_an_alias_of_the_ssh_config_is_enough(environment: dict[str, str], tmp_path: Path, sshd: Sshd) -> None:
    done = subprocess.run(
        [*ARGV, "titan", "--json"], env=environment, cwd=tmp_path, capture_output=True, check=False, timeout=60
    )
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"]) == (0, True)
    assert {row["check"] for row in report["checks"]} >= {
        "connect",
        "host key",
        "login",
        "agent",
        "round trip",
        "python",
    }


def test_BI_31_a_script_gets_exit_12_and_the_fingerprint(
    environment: dict[str, str], tmp_path: Path, sshd: Sshd
) -> None:
    sshd.known_hosts.write_text("")
    done = subprocess.run(
        [*ARGV, "titan", "--json"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=60,
    )
    report = json.loads(done.stdout)
    assert (done.returncode, report["exit_code"], report["ok"]) == (12, 12, False)
    assert sshd.fingerprint() in done.stdout.decode()
    assert b"Traceback" not in done.stderr
    [hint] = [one["hint"] for one in report["findings"] if one["check"] == "host-key"]
    assert "hosts check" not in hint, "the command itself is no way out"
    pin = hint.partition("host_key: ")[2]
    (tmp_path / "configs/hosts").mkdir(parents=True)
    (tmp_path / "configs/hosts/pinned.yaml").write_text(f"host: titan\nhost_key: {pin}\n")
    keep_trust(load_host("pinned", tmp_path), environment)  # a file of one's own that names an alias
    again = [*ARGV, "pinned", "--json"]
    pinned = subprocess.run(again, env=environment, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    assert pinned.returncode == 0, pinned.stdout


def test_BI_31_a_person_is_shown_the_fingerprint_and_asked_once(
    environment: dict[str, str], tmp_path: Path, sshd: Sshd
) -> None:
    sshd.known_hosts.write_text("")
    terminal = Terminal([*ARGV, "titan"], environment, tmp_path)
    terminal.wait_for("[y/N]")
    assert sshd.fingerprint() in terminal.seen.replace("\r\n", "")
    terminal.type("y\n")
    terminal.wait_for("round trip")
    assert terminal.end() == 0
    again = Terminal([*ARGV, "titan"], environment, tmp_path)
    assert again.end() == 0
    assert "[y/N]" not in again.seen


@pytest.mark.parametrize("prompt", ["host key", "passphrase"])
def test_BI_60_ctrl_c_at_each_prompt_ends_with_130_and_no_traceback(
    environment: dict[str, str], tmp_path: Path, sshd: Sshd, prompt: str
) -> None:
    if prompt == "host key":
        sshd.known_hosts.write_text("")
    else:
        subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", sshd.user_key], check=True)
    terminal = Terminal([*ARGV, "titan"], environment, tmp_path)
    terminal.wait_for("[y/N]" if prompt == "host key" else "Passphrase for")
    start = time.monotonic()
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 130
    assert time.monotonic() - start < 5.0
    assert "Traceback" not in terminal.seen
