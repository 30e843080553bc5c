"""The notification at the end of a job: a command or a URL, which may contain the job's secrets and may fail."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from remote.payload.jobs.notification import as_variables, end_of_job, run_command
from remote.protocol.jobs import JobResult, JobState, Progress
from remote.protocol.values import dumps
from tests.lab.processes import alive
from tests.lab.sshd import nobody_listens
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import Bench

SECRETS = {"secrets": {"HOOK_TOKEN": "t0ken"}}


class Server(ThreadingHTTPServer):
    """Keeps the path and the body of every POST."""

    posts: list[tuple[str, dict[str, str]]]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.posts.append((self.path, body))  # type: ignore[attr-defined]
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with Server(("127.0.0.1", 0), Handler) as listening:
        listening.posts = []
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield listening
        listening.shutdown()


def test_the_end_of_a_job_is_posted_to_a_url_with_a_secret_in_it(bench: Bench, server: Server) -> None:
    url = f"http://127.0.0.1:{server.server_port}/hooks/$HOOK_TOKEN"
    bench.start("--steps", 3, notify=url, secrets=("HOOK_TOKEN",), request=SECRETS)
    [(path, body)] = until(lambda: server.posts, "the notification")
    assert path == "/hooks/t0ken"
    assert (body["run"], body["state"], body["step"], body["exit"]) == (bench.run, "succeeded", "3", "0")
    assert body["text"] == body["content"] == body["message"]
    assert body["message"].startswith(f"{bench.run} on ")


def test_the_end_of_a_job_is_passed_to_a_command(bench: Bench) -> None:
    command = 'echo "$HALFSTEP_STATE $HALFSTEP_EXIT $HOOK_TOKEN" > ../notified.part && mv ../notified.part ../notified'
    bench.start("--exit", 3, notify=command, secrets=("HOOK_TOKEN",), request=SECRETS)
    notified = Path(bench.layout.root) / "notified"
    until(notified.exists, "the notification")
    assert notified.read_text() == "failed 3 t0ken\n"


def test_a_notification_that_fails_changes_nothing_and_reveals_no_secret(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    log = Path(bench.job().supervisor_log)
    with nobody_listens() as port:
        url = f"http://127.0.0.1:{port}/$HOOK_TOKEN"
        bench.start("--steps", 2, notify=url, secrets=("HOOK_TOKEN",), request=SECRETS)
        until(lambda: "notify failed: URLError" in log.read_text(), "the error")
    assert bench.survey().state is JobState.SUCCEEDED
    assert "t0ken" not in log.read_text()


def test_a_url_with_a_line_break_in_its_secret_is_not_printed(bench: Bench) -> None:
    log = Path(bench.job().supervisor_log)
    secret = {"secrets": {"HOOK_TOKEN": "t0ken\n"}}
    bench.start("--steps", 2, notify="http://127.0.0.1:9/$HOOK_TOKEN/x", secrets=("HOOK_TOKEN",), request=secret)
    until(lambda: "InvalidURL" in log.read_text(), "the error")
    assert "t0ken" not in log.read_text()


def test_the_run_is_free_while_a_command_is_still_running(bench: Bench) -> None:
    go = bench.workdir / "go"
    bench.start("--steps", 2, notify=f"while [ ! -e '{go}' ]; do sleep 0.05; done")
    until(lambda: bench.survey().result, "the end")
    answer = bench.start("--steps", 2, number=2)
    assert answer.fresh
    go.touch()


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_command("sleep 3600 & echo $! > pid; wait", str(tmp_path), {"PATH": "/usr/bin:/bin"}, deadline_s=0.5)
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not alive(pid), "the end of its child")


@pytest.mark.parametrize(
    ("result", "state"),
    [
        (JobResult(143, stopped=True, reason="stopped on request"), "stopped"),
        (JobResult(143, preempted=True), "preempted"),
        (JobResult(1), "failed"),
    ],
)
def test_a_notification_names_the_state_and_what_is_known(bench: Bench, result: JobResult, state: str) -> None:
    Path(bench.layout.root).mkdir(parents=True)
    assert end_of_job(bench.layout, result)["state"] == state
    Path(bench.layout.progress).write_bytes(dumps(Progress(40, 120, loss=0.25)))
    facts = end_of_job(bench.layout, result)
    assert f"{state} at step 40 of 120, mean loss 0.25" in facts["message"]
    assert as_variables(facts)["HALFSTEP_STEPS"] == "120"
