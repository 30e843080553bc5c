"""Shared by tests of jobs: a host with one run, and functions that wait and list processes."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from remote.link.agent import AgentHost
from remote.operations.jobs import start_job, take_survey
from remote.payload.jobs.state import SILENT_AFTER_S
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobSpec, RunSurvey, StartAnswer
from remote.protocol.layout import JobLayout, ProjectLayout, RunLayout
from remote.protocol.survey import Survey, SurveyRequest
from tests.lab.processes import processes_of

PROJECT = "speech-00000000"
TRAINER = Path(__file__).with_name("fake_trainer.py")


@dataclass
class Bench:
    """One host and one run on it, with the paths that tests use."""

    host: AgentHost
    workdir: Path
    run: str = "tiny-01234567"
    python: str = sys.executable
    starts: list[StartAnswer] = field(default_factory=list)

    @property
    def layout(self) -> RunLayout:
        return RunLayout(str(self.workdir / ProjectLayout(PROJECT).run(self.run).root))

    def job(self, number: int = 1) -> JobLayout:
        return self.layout.job(number)

    def spec(self, *words: object, number: int = 1, **settings: object) -> JobSpec:
        argv = (self.python, str(TRAINER), *(str(word) for word in words))
        return JobSpec(self.run, number, "f" * 64, argv, **{"grace_s": 20.0, **settings})  # type: ignore[arg-type]

    def start(self, *words: object, number: int = 1, request: dict | None = None, **settings: object) -> StartAnswer:
        spec = self.spec(*words, number=number, **settings)
        answer = start_job(self.host, StartRequest(PROJECT, spec, "tiny", **(request or {})))
        self.starts.append(answer)
        return answer

    def look(self, **request: object) -> Survey:
        return take_survey(self.host, SurveyRequest(PROJECT, self.python, **request))  # type: ignore[arg-type]

    def survey(self) -> RunSurvey:
        found = self.look().run(self.run)
        assert found is not None
        return found

    def trainer_rows(self) -> list[dict]:
        """Return the events that the fake trainer has recorded, one dict per line."""
        path = Path(self.layout.root) / "trainer.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def events(self, name: str) -> list[dict]:
        return [row for row in self.trainer_rows() if row["event"] == name]

    def output(self, number: int = 1) -> str:
        return Path(self.job(number).output).read_text()

    def silence(self) -> None:
        """Make the files of the job as old as those of a job that has ended."""
        job, old = self.job(), time.time() - SILENT_AFTER_S - 1.0
        for path in (job.supervisor, self.layout.progress, job.output, job.gauges):
            if Path(path).exists():
                os.utime(path, (old, old))


def ours(workdir: Path) -> list[int]:
    """Return every living process whose environment or command names a project of that workdir."""
    return processes_of(workdir / "projects")
