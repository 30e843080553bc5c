"""Fixtures that run small training scripts under the proof's hooks; torch is imported once for all of them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from remote.payload.proof.evidence import Evidence, Ranks
from remote.payload.proof.injection import write_hooks
from remote.payload.proof.judge import judge_proof
from remote.payload.proof.provenance import read_texts
from remote.policy.precision import judge_precision
from remote.protocol.proof import ProofReport, ProofRequest
from remote.protocol.runtime import runtime_environment
from tests.lab.wait import PATIENCE_S

HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
TURING = (7, 5)

Prove = Callable[..., ProofReport]


@pytest.fixture(scope="session")
def forkserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[dict[str, Any]], int | None]]:
    """A function that runs one request in a fork of a process that has imported torch, one for all workers of xdist."""
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(_connection(tmp_path_factory, stack)).makefile("rw")

        def run(order: dict[str, Any]) -> int | None:
            print(json.dumps({"seconds": PATIENCE_S, **order}), file=connection, flush=True)
            return json.loads(connection.readline())["exit"]

        yield run
        connection.close()


def _connection(tmp_path_factory: pytest.TempPathFactory, stack: contextlib.ExitStack) -> socket.socket:
    """Connect to the server of this test session. Start it if there is none; it ends with the stack."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    name = f"halfstep-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    connection = socket.socket(socket.AF_UNIX)
    with (folder / "forkserver.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            connection.connect("\0" + name)
        except ConnectionRefusedError:
            server = subprocess.Popen(
                [sys.executable, str(HERE / "forkserver.py"), write_hooks(str(tmp_path_factory.mktemp("hooks"))), name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
            )
            stack.enter_context(server)
            assert server.stdout and server.stdout.readline() == b"ready\n"
            connection.connect("\0" + name)
    return connection


@pytest.fixture
def prove(forkserver, tmp_path) -> Prove:
    """A function that runs the proof of one script, as if on a card of the given capability."""

    def run(
        script: Path, *, capability=TURING, requested="auto", argv=(), runtime=False, environment=None, **request: Any
    ) -> ProofReport:
        (tmp_path / "reports").mkdir()
        plan = judge_precision(capability=capability, requested=requested)
        given = {**(environment or {}), **(runtime_environment(plan) if runtime else {})}
        environment = {"HALFSTEP_PROOF": str(tmp_path / "reports"), **given}
        order = {"script": str(script), "folder": str(tmp_path), "environment": environment, "argv": [*argv]}
        path = SCRIPTS if tmp_path in script.parents else script.parents[1]
        exit_status = forkserver({**order, "path": str(path)})
        asked = ProofRequest("p", (str(script),), plan, capability=capability, environment=given, **request)
        output = (tmp_path / "output.log").read_text()
        ranks = Ranks(str(tmp_path / "reports")).read()
        texts = read_texts(str(tmp_path), ranks)
        return judge_proof(Evidence(asked, ranks, exit=exit_status, output_tail=output, texts=texts))

    return run


@pytest.fixture
def watch(forkserver, tmp_path) -> Callable[[Path], tuple[list[dict[str, Any]], int | None, str]]:
    """Run a script to its end under the live watch. Return its findings, its exit status, and its output."""

    def run(script: Path, **environment: str) -> tuple[list[dict[str, Any]], int | None, str]:
        variables = {"HALFSTEP_WATCH": str(tmp_path), "HALFSTEP_PROOF": "", **environment}
        status = forkserver({"script": str(script), "folder": str(tmp_path), "environment": variables})
        file = tmp_path / "watch.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return lines, status, (tmp_path / "output.log").read_text()

    return run
