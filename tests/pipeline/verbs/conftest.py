"""A stand-in for the HTTP interface of a hub, and a project with an adapter to upload."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_note
from pipeline.report.model import RunReport, Verdict
from pipeline.report.saved import save_report
from remote.protocol.evaluation import Estimate, EvaluationResult, ModelScores
from remote.protocol.jobs import JobState
from remote.protocol.values import dumps
from tests.pipeline.verbs.hub import RUN, SETTINGS, TOKEN, WEIGHTS, Hub


@pytest.fixture
def hub() -> Iterator[Hub]:
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if state.refuses or self.headers.get("authorization") != f"Bearer {TOKEN}":
                self.answer({"error": "refused"}, state.refuses or 401)
            elif self.path.endswith("/repos/create"):
                state.created.append(json.loads(body))
                self.answer({"url": f"{state.address}/me/speech"})
            elif "/preupload/" in self.path:
                files = [{"path": one["path"], "uploadMode": "regular"} for one in json.loads(body)["files"]]
                self.answer({"files": [{**one, "shouldIgnore": False} for one in files]})
            elif "/commit/" in self.path:
                rows = [json.loads(line)["value"] for line in body.splitlines()[1:]]
                state.files = {row["path"]: base64.b64decode(row["content"]) for row in rows}
                self.answer(
                    {"success": True, "commitOid": "c0ffee", "commitUrl": f"{state.address}/me/speech/commit/c0ffee"}
                )
            else:
                self.answer({"errors": [], "warnings": []})

        def answer(self, value: object, status: int = 200) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield state
    server.shutdown()
    server.server_close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a finished run, its report, evaluation and adapter."""
    root = tmp_path / "project"
    (root / "configs").mkdir(parents=True)
    (root / "configs" / "speech.yaml").write_text(
        "model: {id: someone/audio-model, revision: abc}\ndata: {dataset: someone/recordings}\n"
    )
    records = Records(root)
    note = RunNote(RUN, "titan", "speech", "p", 1.0, state=JobState.SUCCEEDED, step=120, steps=120, seen_unix=2.0)
    write_note(records, note)
    folder = records.folder_named(RUN)
    environment = (("torch", "2.13.0"),)
    save_report(
        folder,
        RunReport(
            RUN,
            "speech",
            "titan",
            Verdict.TRAINED,
            card="TITAN RTX",
            precision="fp16-mixed: below 8.0",
            step=120,
            environment=environment,
        ),
    )
    (folder / "evaluation.json").write_bytes(
        dumps(
            EvaluationResult(
                (ModelScores("adapter", {"mdd/wer": Estimate(0.125, 0.1, 0.15), "mdd/per": Estimate(None)}),),
                recordings=50,
                answers=50,
                data="someone/recordings",
                split="test",
            )
        )
    )
    (folder / "adapter").mkdir()
    (folder / "adapter" / "adapter_model.safetensors").write_bytes(WEIGHTS)
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps(SETTINGS))
    (folder / "adapter" / "README.md").write_text("as the trainer saved it")
    return root
