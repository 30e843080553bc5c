"""The operation `proof.run`, which runs a proof in its own process and streams its steps and its report."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
from typing import IO, Any, Dict, Iterator

from remote.payload.probes.compute_node import Place, place_of
from remote.payload.request.call import Call
from remote.payload.request.names import checked_name
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.layout import ProjectLayout
from remote.protocol.proof import ProofRequest
from remote.protocol.values import decode, dumps

ENDING_S = 30.0


def run_proof(call: Call) -> Dict[str, Any]:
    """Push {step} for every optimizer step and {report} at the end. Nothing stays on the host.

    If the laptop disconnects, the worker's stdin ends. The worker then ends the command, removes its scratch folder and
    exits.
    """
    request = decode(ProofRequest, call.args)
    layout = ProjectLayout(checked_name(request.project))
    with tempfile.TemporaryFile() as errors, place_of(call, layout, request.slurm, request.deadline_s) as place:
        worker = _start(call, place, errors)
        return _follow(call, request, worker, errors)


def _start(call: Call, place: Place, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the worker. srun and the worker write their messages to `errors`."""
    argv = [*place.launcher, sys.executable, "-I", "-S", "-B", place.payload, "prove", call.workdir]
    if not place.launcher:
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        return subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    except FileNotFoundError:
        message = "srun is not installed on this host"
        raise Refusal("slurm", message, where="scheduler", exit_code=ExitCode.ENVIRONMENT)


def _follow(call: Call, request: ProofRequest, worker: subprocess.Popen[bytes], errors: IO[bytes]) -> Dict[str, Any]:
    assert worker.stdin is not None and worker.stdout is not None
    try:
        worker.stdin.write(dumps(request) + b"\n")
        worker.stdin.flush()
        for event in _events(call, worker.stdout):
            if "error" in event:
                error = event["error"]
                raise Refusal(
                    error["kind"],
                    error["message"],
                    where=error.get("where", ""),
                    hint=error.get("hint", ""),
                    exit_code=ExitCode(error.get("exit_code", ExitCode.BUG)),
                )
            call.push(event)
            if "report" in event:
                return {"ended": True}
        if request.slurm is not None and not call.connection.closed():
            raise Refusal("slurm", _message(errors), where="slurm", exit_code=ExitCode.ENVIRONMENT)
        return {"ended": False}
    finally:
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.close()
        try:
            worker.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        worker.stdout.close()


def _message(errors: IO[bytes]) -> str:
    """Return the last lines of srun's messages."""
    errors.seek(0)
    lines = errors.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
    return "; ".join(lines[-3:]) or "srun ended without a message"


def _events(call: Call, source: IO[bytes]) -> Iterator[Dict[str, Any]]:
    """Yield the worker's events until the worker or the connection ends, and keep the connection alive."""
    descriptor = source.fileno()
    held = b""
    while True:
        readable, _, _ = select.select([descriptor, call.connection.source.fileno()], [], [], 0.5)
        if call.connection.source.fileno() in readable and call.connection.closed():
            return
        if descriptor in readable:
            data = os.read(descriptor, 65536)
            if not data:
                return
            *lines, held = (held + data).split(b"\n")
            for line in lines:
                yield json.loads(line)
        call.keep_alive()
