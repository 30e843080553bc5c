"""Check whether the precision plan of `fixers: {runtime: auto}` was applied in the processes that train."""

from __future__ import annotations

from typing import Iterator

from remote.payload.proof.evidence import Evidence, Result, error, passed


def judge(evidence: Evidence) -> Iterator[Result]:
    """Yield the finding `runtime` if the request contains a plan."""
    if not evidence.has_runtime:
        return
    if not evidence.ranks:
        message = "the plan of `fixers: {runtime: auto}` was not applied: no process trained a model under the hooks"
        yield error("runtime", message, hint="pipeline explain runtime")
        return
    yield passed("runtime", "; ".join(evidence.runtime_lines) or "nothing had to be changed in the process")
