"""On a host with Slurm, the proof and the card step run on a compute node, through srun."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from remote.errors import RemoteFault
from remote.host import Host
from remote.link.local import local_host
from remote.operations.jobs import probe_environment
from remote.operations.proof import run_proof, step_card
from remote.policy.precision import judge_precision
from remote.protocol.card import CardRequest
from remote.protocol.environment import EnvironmentRequest
from remote.protocol.exits import ExitCode
from remote.protocol.proof import ProofRequest
from remote.protocol.values import encode
from tests.lab.plain_torch import WITHOUT_COMPILER
from tests.lab.slurm import Slurm, slurm_cluster
from tests.lab.wait import until

SCRIPT = (
    WITHOUT_COMPILER
    + """
import os, sys, torch
print("allocation", os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_JOB_PARTITION"), file=sys.stderr)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(4):
    model(torch.randn(2, 4)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
)
OPTIONS = ("--partition=debug", "--cpus-per-task=1")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    with slurm_cluster(tmp_path / "slurm", monkeypatch) as running:
        yield running


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    (tmp_path / "tree").mkdir()
    opened = local_host(str(tmp_path / "work"), keep=False)
    yield opened
    opened.close()


def request(tmp_path: Path, script: str, slurm: tuple[str, ...]) -> ProofRequest:
    (tmp_path / "tree" / "train.py").write_text(script)
    return ProofRequest(
        "p-1",
        (sys.executable, "train.py"),
        judge_precision(capability=None, requested="auto"),
        source=str(tmp_path / "tree"),
        environment={"OMP_NUM_THREADS": "1"},
        slurm=slurm,
    )


@pytest.mark.root
def test_the_proof_runs_in_an_allocation_of_its_own_which_ends_with_it(
    cluster: Slurm, host: Host, tmp_path: Path
) -> None:
    steps = []
    report = run_proof(host, request(tmp_path, SCRIPT, OPTIONS), on_step=steps.append)
    assert report.ok
    assert len(steps) == 2
    until(lambda: not cluster.ask("squeue", "--noheader"), "an empty queue")


@pytest.mark.root
def test_a_failing_command_is_reported_from_the_node(cluster: Slurm, host: Host, tmp_path: Path) -> None:
    text = SCRIPT.replace("model = ", "sys.exit(3)\nmodel = ")
    report = run_proof(host, request(tmp_path, text, OPTIONS))
    assert report.exit == 3
    assert "allocation" in report.output_tail
    assert "allocation None" not in report.output_tail
    assert "debug" in report.output_tail


@pytest.mark.root
def test_a_client_that_leaves_ends_the_allocation(cluster: Slurm, host: Host, tmp_path: Path) -> None:
    slow = SCRIPT.replace("range(4)", "range(1000)").replace("optimizer.step()", "time.sleep(0.5); optimizer.step()")
    wanted = replace(request(tmp_path, f"import time\n{slow}", OPTIONS), steps=1000, attempts=1000)
    events = host.follow("proof.run", encode(wanted), within_s=wanted.deadline_s)
    next(event for event in events if "step" in event)
    assert cluster.ask("squeue", "--noheader", "--format=%t").strip() == "R"
    events.close()
    until(lambda: not cluster.ask("squeue", "--noheader"), "an empty queue")


@pytest.mark.root
def test_a_refusal_of_srun_is_quoted(cluster: Slurm, host: Host, tmp_path: Path) -> None:
    with pytest.raises(RemoteFault, match=r"srun: .*partition") as fault:
        run_proof(host, request(tmp_path, SCRIPT, ("--partition=nowhere",)))
    assert fault.value.exit_code is ExitCode.ENVIRONMENT


@pytest.mark.root
def test_the_card_step_runs_on_the_node(cluster: Slurm, host: Host, tmp_path: Path) -> None:
    seen = tmp_path / "python"
    seen.write_text(f'#!/bin/sh\necho "$SLURM_JOB_ID" > {tmp_path}/allocation\nexec {sys.executable} "$@"\n')
    seen.chmod(0o755)
    plan = judge_precision(capability=None, requested="auto")
    asked = CardRequest("p", str(seen), plan, environment={"OMP_NUM_THREADS": "1"}, slurm=OPTIONS)
    assert step_card(host, asked).facts.device == "cpu"
    assert (tmp_path / "allocation").read_text().strip().isdigit()


@pytest.mark.root
def test_the_interpreter_and_its_cards_are_tried_on_the_node(cluster: Slurm, host: Host, tmp_path: Path) -> None:
    seen = tmp_path / "python"
    seen.write_text(f'#!/bin/sh\necho "at $SLURM_JOB_ID" >> {tmp_path}/places\nexec {sys.executable} "$@"\n')
    seen.chmod(0o755)
    asked = EnvironmentRequest("p", str(seen), gpus=(0,), packages=("torch",), write_bytes=4096, slurm=OPTIONS)
    facts = probe_environment(host, asked)
    assert (facts.error, facts.imports) == ("", {"torch": ""})
    assert any(line.split()[1:] for line in (tmp_path / "places").read_text().splitlines())
    refused = probe_environment(host, replace(asked, slurm=("--partition=nowhere",)))
    assert "Invalid partition" in refused.error


def test_missing_srun_is_reported(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not os.path.exists(tmp_path / "srun")
    with pytest.raises(RemoteFault, match="srun is not installed on this host"):
        run_proof(host, request(tmp_path, SCRIPT, ()))
