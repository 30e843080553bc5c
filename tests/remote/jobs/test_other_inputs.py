"""Two laptops that resume a run with different inputs at the same time: one starts its job, the other is refused."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from remote.errors import RemoteFault
from remote.link.local import local_host
from remote.operations.jobs import list_jobs, start_job
from remote.protocol.exits import ExitCode
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobState
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench


def request(bench: Bench, inputs: str, *words: object) -> StartRequest:
    return StartRequest(PROJECT, replace(bench.spec(*words, number=2), fingerprint=inputs * 64), "tiny")


def ended(bench: Bench) -> None:
    bench.start("--exit", 3)
    until(lambda: bench.survey().result, "the end of job 1")


@pytest.mark.parametrize("running", [True, False])
def test_a_job_that_was_started_with_other_inputs_is_refused_and_the_same_one_is_found(bench: Bench, running: bool):
    ended(bench)
    go = bench.workdir / "go"
    assert start_job(bench.host, request(bench, "a", "--until", go)).fresh
    if not running:
        go.touch()
        until(lambda: bench.survey().state is JobState.SUCCEEDED, "the end")
    with pytest.raises(RemoteFault, match="job 2 of tiny-01234567 was started with other inputs") as fault:
        start_job(bench.host, request(bench, "b", "--until", go))
    assert fault.value.exit_code is ExitCode.BUSY
    assert start_job(bench.host, request(bench, "a", "--until", go)).fresh is False
    assert len(list_jobs(bench.host, PROJECT, bench.run)) == 2


def test_of_two_resumes_at_once_one_starts_and_the_other_fails(bench: Bench):
    ended(bench)
    outcomes: dict[str, str] = {}

    def resume(inputs: str) -> None:
        host = local_host(str(bench.workdir))
        try:
            start_job(host, request(bench, inputs, "--print", inputs, "--until", "/never"))
            outcomes["started"] = inputs
        except RemoteFault as fault:
            outcomes[fault.kind] = inputs
        finally:
            host.close()

    threads = [threading.Thread(target=resume, args=(inputs,)) for inputs in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) == {"started", "busy"}
    until(lambda: bench.output(2), "the output")
    assert bench.output(2).strip() == outcomes["started"]
