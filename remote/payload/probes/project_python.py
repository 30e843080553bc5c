"""The interpreter that trains, asked from here: our verbs run in it, with its packages and the job's environment."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Dict, Mapping

from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode


def job_environment(extra: Mapping[str, str]) -> Dict[str, str]:
    """This agent's environment with the config's on top, `~` and `$NAME` in the config's expanded."""
    merged = {**os.environ, **{name: os.path.expandvars(os.path.expanduser(value)) for name, value in extra.items()}}
    merged["PYTHONDONTWRITEBYTECODE"] = "1"
    return merged


def ask_python(
    python: str, payload: str, verb: str, request: Mapping[str, Any], environment: Mapping[str, str], timeout_s: float
) -> Dict[str, Any]:
    """What `python payload.pyz VERB` answered to the request. Raises Refusal where it could not run."""
    try:
        done = subprocess.run(
            [python, payload, verb],
            input=json.dumps(dict(request)).encode(),
            capture_output=True,
            env=job_environment(environment),
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _unusable(python, f"did not answer in {timeout_s:.0f} s")
    except OSError as error:
        raise _unusable(python, error.strerror or str(error))
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise _unusable(python, words[-1] if words else f"ended with {done.returncode} and said nothing") from None
    return answer if isinstance(answer, dict) else {}


def _unusable(python: str, why: str) -> Refusal:
    return Refusal("interpreter", f"{python}: {why}", where=python, exit_code=ExitCode.ENVIRONMENT)
