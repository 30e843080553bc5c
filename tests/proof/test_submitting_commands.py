"""A command that submits jobs to Slurm itself is not proved, and the jobs of its proof are cancelled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.host import Host
from remote.link.local import local_host
from remote.operations.proof import run_proof
from remote.payload.processes.command_jobs import SUBMITS
from remote.policy.precision import judge_precision
from remote.protocol.exits import ExitCode
from remote.protocol.proof import ProofRequest
from tests.lab.payload import install_payload
from tests.lab.slurm import slurm_cluster
from tests.remote.jobs.squeue_cluster import Cluster


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    install_payload(tmp_path / "work")
    (tmp_path / "tree").mkdir()
    host = local_host(str(tmp_path / "work"), keep=False)
    yield host
    host.close()


def request(tmp_path: Path, command: str, environment: dict[str, str]) -> ProofRequest:
    plan = judge_precision(capability=(7, 5))
    return ProofRequest("p", ("sh", "-c", command), plan, source=str(tmp_path / "tree"), environment=environment)


@pytest.mark.parametrize("then", ["true", "exit 3"])
def test_a_proof_fails_if_the_command_leaves_a_job_in_slurm(host: Host, tmp_path: Path, then: str) -> None:
    (tmp_path / "bin").mkdir()
    cluster = Cluster(tmp_path / "bin")
    submit = f"printf '%-32s%-16s%-32s%-256s%s\\n' 7 1 RUNNING mine \"$PWD\" > {cluster.listed}; {then}"
    report = run_proof(host, request(tmp_path, submit, cluster.environment))
    (finding,) = [one for one in report.findings if one.exit_code]
    assert (finding.check, finding.exit_code) == (SUBMITS, ExitCode.ENVIRONMENT)
    assert "scheduler: slurm" in finding.hint
    assert "-- 7" in cluster.calls.read_text().splitlines()


@pytest.mark.root
@pytest.mark.parametrize(("command", "refused"), [("sbatch --wrap='exec sleep 600'", True), ("srun true", False)])
def test_sbatch_is_refused_in_a_proof_and_srun_is_not(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, refused: bool
) -> None:
    with slurm_cluster(tmp_path / "slurm", monkeypatch) as cluster:
        environment = {"PATH": os.environ["PATH"], **cluster.environment}
        report = run_proof(host, request(tmp_path, command, environment))
        assert (SUBMITS in [one.check for one in report.findings]) is refused
        assert cluster.ask("squeue", "--noheader", "--states=RUNNING,PENDING") == ""
