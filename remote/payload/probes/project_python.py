"""Run the payload's verbs in the project's interpreter, with its packages and the job's environment."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Dict, Mapping

from remote.payload.probes.compute_node import Place
from remote.payload.processes.variables import expand_variables
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode


def job_environment(extra: Mapping[str, str]) -> Dict[str, str]:
    """Return this agent's environment, updated with `extra`, in which `~` and `$NAME` are expanded."""
    merged = {**os.environ, **expand_variables(extra)}
    merged["PYTHONDONTWRITEBYTECODE"] = "1"
    return merged


def ask_python(
    python: str,
    place: Place,
    verb: str,
    request: Mapping[str, Any],
    environment: Mapping[str, str],
    timeout_s: float,
) -> Dict[str, Any]:
    """Run `python payload.pyz VERB` with the request on stdin, and return its answer. Raises Refusal if that fails."""
    try:
        done = subprocess.run(
            [*place.launcher, python, place.payload, verb],
            input=json.dumps(dict(request)).encode(),
            capture_output=True,
            env=job_environment(environment),
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _unusable(python, f"no answer within {timeout_s:.0f} s")
    except OSError as error:
        raise _unusable(python, error.strerror or str(error))
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise _unusable(python, lines[-1] if lines else f"exit status {done.returncode} without output") from None
    return answer if isinstance(answer, dict) else {}


def _unusable(python: str, why: str) -> Refusal:
    return Refusal("interpreter", f"{python}: {why}", where=python, exit_code=ExitCode.ENVIRONMENT)
