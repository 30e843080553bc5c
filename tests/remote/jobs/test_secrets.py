"""FI-58: values of secrets are in the trainer's environment and nowhere else."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from remote.errors import HalfstepError
from remote.host import Host
from remote.link.reach import open_host
from remote.operations.jobs import follow_job, start_job
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobState
from remote.pull.log import read_log
from tests.lab.sshd import Sshd
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench, ours
from tests.remote.jobs.own_files import own_files

CANARIES = {
    "HF_TOKEN": "hf_CanaryOfTheHub0123456789",
    "WANDB_API_KEY": "canary0f3d5e7a9b1c2d4e6f8a0b2c4d6e8f0a1b3c5d7e9",
}
CRASH = (
    "import os, sys, time\n"
    "assert os.environ['HF_TOKEN'].startswith('hf_Canary') and os.environ['WANDB_API_KEY'].startswith('canary')\n"
    "open(os.environ['HALFSTEP_RUN_DIR'] + '/began', 'w').close()\n"
    "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
    "raise RuntimeError('CUDA out of memory, says the canary')\n"
)


class Sampled:
    """The content of /proc/*/cmdline, sampled about fifty times per second."""

    def __init__(self) -> None:
        self.rounds = 0
        self.seen: set[bytes] = set()
        self.over = threading.Event()

    def look(self) -> None:
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    self.seen.add(Path(f"/proc/{name}/cmdline").read_bytes())
                except OSError:
                    continue
        self.rounds += 1

    def look_on(self) -> None:
        while not self.over.wait(0.01):
            self.look()


@contextmanager
def sampling() -> Iterator[Sampled]:
    sampled = Sampled()
    thread = threading.Thread(target=sampled.look_on)
    thread.start()
    try:
        yield sampled
    finally:
        sampled.over.set()
        thread.join()


def hits(folder: Path) -> list[str]:
    """Return the files under the folder with a canary in their content or their name."""
    return [
        str(path)
        for path, content in own_files(folder)
        if any(value.encode() in content or value in str(path.relative_to(folder)) for value in CANARIES.values())
    ]


def all_output(host: Host, run: str) -> str:
    """Return the output of the job as the laptop reads it."""
    log = bytearray()
    read_log(host, PROJECT, run, log.extend)
    return log.decode()


@pytest.mark.ssh
def test_FI_58_secrets_of_a_crashed_job_are_in_no_command_line_log_or_record(sshd: Sshd, tmp_path: Path) -> None:
    host = open_host(sshd.address())
    bench = Bench(host, sshd.home / "halfstep")
    go = tmp_path / "go"
    shm = Path(f"/dev/shm/hs-{os.getuid()}")
    try:
        with sampling() as sampled:
            bench.run = "crash-01234567"
            spec = bench.spec(secrets=tuple(CANARIES), environment={"PLAIN": "value"})
            spec = replace(spec, argv=(bench.python, "-c", CRASH, str(go)))
            start_job(host, StartRequest(PROJECT, spec, "plain", secrets=CANARIES))
            until((Path(bench.layout.root) / "began").exists, "the trainer with its secrets")
            rounds = sampled.rounds
            until(lambda: sampled.rounds > rounds + 2, "a look while it runs")
            go.touch()
            *_, last = follow_job(host, PROJECT, bench.run)
        assert last.state is JobState.FAILED
        assert last.result.exit == 1
        text = all_output(host, bench.run)
        assert "says the canary" in text, "the crash was really read"
        survey = repr(bench.look())
        with pytest.raises(HalfstepError) as refused:
            host.ask("no.such.operation", {"why": "x"})
        for value in CANARIES.values():
            assert not [line for line in sampled.seen if value.encode() in line]
            assert value not in text + survey + str(refused.value)
        assert any(b"raise RuntimeError" in line for line in sampled.seen), "the trainer was among what was looked at"
        assert hits(sshd.home) == []
        assert hits(shm) == []
        assert not any(value in sshd.log for value in CANARIES.values())
    finally:
        go.touch()
        host.close()
    until(lambda: not ours(bench.workdir), "no process of ours")
