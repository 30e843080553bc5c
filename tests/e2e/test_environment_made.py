"""Creating an environment on a remote host, interrupted and run again."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from tests.e2e.user import User
from tests.lab.package_index import TORCH, slow_index, wheel
from tests.lab.sshd import Sshd


@pytest.mark.ssh
def test_ctrl_c_leaves_an_environment_that_the_next_run_completes_and_names(user: User, sshd: Sshd) -> None:
    wheels = user.home / "wheels"
    wheels.mkdir()
    wheel(wheels, "torch", "2.13.1", TORCH)
    wheel(wheels, "speechkit", "1.2", "answer = 42\n")
    with slow_index(wheels, "speechkit-1.2-py3-none-any.whl") as index:
        user.write_host_file("titan", sshd, python="venv/bin/python", workdir=user.home / "far")
        (user.project / "requirements.txt").write_text("speechkit\n")
        (user.project / "configs" / "mine.yaml").write_text(
            "project: .\ncommand: [python, look.py]\n"
            f"fixers: {{environment: {{base: {sys.executable}, find_links: '{index.url}', no_index: true}}}}\n"
        )
        words = ("run", "--host", "titan", "--config", "mine", "--until", "environment")
        first = user.start_pipeline(*words)
        assert index.asked.wait(120), "pip never asked for the package"
        os.killpg(first.pid, signal.SIGINT)
        first.communicate(timeout=120)
        assert first.returncode == 130
        index.gate.set()
        second = user.run_pipeline(*words)
    assert second.code == 0, second.out + second.err
    assert "resuming the unfinished installation" in second.out
    [line] = [line for line in second.out.splitlines() if "environment" in line and "done" in line]
    assert "torch 2.13.1" in line
    assert "clock" not in second.out
    third = user.run_pipeline(*words)
    assert "nothing to do" in third.out
