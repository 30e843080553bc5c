"""What each node of a Slurm job runs, and the address of the first one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from remote.payload.jobs.node import environment, filled
from remote.payload.jobs.nodes import numeric, own_address, srun_argv

ROOT = Path(__file__).parents[3]
NODE = (sys.executable, "-m", "remote.payload", "node", "127.0.0.1:29500")
CHILD = (
    "import os, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
    "print(sys.argv[1:], os.environ['GLOO_SOCKET_IFNAME'], flush=True)\n"
    "while True: time.sleep(0.05)\n"  # a signal just before signal.pause() would not end it
)


def start_node(number: str) -> subprocess.Popen[str]:
    words = ("is_host={is_host},join_timeout=600", "{endpoint}", "{local_address}", "x{endpoint}")
    argv = [*NODE, sys.executable, "-c", CHILD, *words]
    kept = {**os.environ, "SLURM_NODEID": number, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(argv, env=kept, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("ends", ["a line", "the end of stdin"])
@pytest.mark.parametrize(("number", "host"), [("0", "1"), ("1", "0")])
def test_a_node_fills_in_the_rendezvous_and_ends_its_command_by_SIGTERM(number: str, host: str, ends: str) -> None:
    with start_node(number) as node:
        assert node.stdin is not None and node.stdout is not None
        wanted = [f"is_host={host},join_timeout=600", "127.0.0.1:29500", "127.0.0.1", "x{endpoint}"]
        assert node.stdout.readline() == f"{wanted} lo\n"
        node.send_signal(signal.SIGTERM)
        assert node.poll() is None, "Slurm signals every process of a job"
        if ends == "a line":
            node.stdin.write("stop\n")
            node.stdin.flush()
        else:
            node.stdin.close()
        assert node.wait(60) == 7


def test_the_words_of_a_script_are_not_changed() -> None:
    words = {"{endpoint}": "a:1", "{local_address}": "b", "{is_host}": "1"}
    spec = '{"note": "{endpoint} {is_host}"}'
    assert filled(["{endpoint}", "is_host={is_host},x", spec], words) == ["a:1", "is_host=1,x", spec]


def test_a_setting_of_the_user_names_the_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "ib0")
    made = environment("127.0.0.1")
    assert (made["GLOO_SOCKET_IFNAME"], made["NCCL_SOCKET_IFNAME"], made["HALFSTEP_SHARED_RUN"]) == ("lo", "ib0", "1")


def test_a_task_on_each_node_has_all_processors_of_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    plain = srun_argv("3")
    assert {"--nodes=3", "--ntasks=3", "--ntasks-per-node=1", "--cpu-bind=none"} <= set(plain)
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "8")
    assert srun_argv("3") == [*plain, "--cpus-per-task=8"]


@pytest.mark.parametrize(("shown", "address"), [("127.0.0.9", "127.0.0.9"), ("10.1.2.3", "10.1.2.3")])
def test_the_address_is_that_of_slurms_configuration(
    shown: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "scontrol"
    command.write_text(f"#!/bin/sh\necho NodeName=$3 Arch=x86_64 NodeAddr={shown} NodeHostName=$3\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert own_address() == address


def test_a_name_that_means_the_loopback_interface_on_the_node_itself_is_no_address_for_others() -> None:
    assert numeric("127.0.0.1") == "127.0.0.1"
    assert numeric("localhost") == numeric("no-such-node.invalid")
