"""pip and its like, run while the line to the laptop is kept alive."""

from __future__ import annotations

import subprocess
import tempfile
from typing import Dict, List

from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode

HEARTBEAT_S = 5.0
PIP = ("-m", "pip", "--no-input", "--disable-pip-version-check")


def run_alive(call: Call, argv: List[str], environment: Dict[str, str], complaint: str) -> str:
    """What the command printed. Raises Refusal with its last words."""
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
            )
        except OSError as error:
            raise refused("no-python", f"{complaint}: {error.strerror}", argv[0]) from None
        try:
            _wait(call, process)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    if process.returncode != 0:
        raise refused("install", f"{complaint}: {reason_of(text)}", argv[0])
    return text


def _wait(call: Call, process: subprocess.Popen[bytes]) -> None:
    while True:
        try:
            process.wait(HEARTBEAT_S)
            return
        except subprocess.TimeoutExpired:
            call.push({})


def reason_of(text: str) -> str:
    """pip says ERROR on the lines that matter; the last one sums up."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.partition("ERROR:")[2].strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it said nothing"])[-1][:400]


def refused(kind: str, message: str, where: str, hint: str = "") -> Refusal:
    return Refusal(kind, message, where=where, hint=hint, exit_code=ExitCode.ENVIRONMENT)
