"""A run on this machine behind a real agent, and the local folder for its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from remote.link.agent import AgentHost
from remote.link.local import local_host
from remote.payload.output.events import survey_events
from remote.protocol.jobs import EventFile
from remote.protocol.layout import ProjectLayout
from remote.pull.events import pull_events
from remote.pull.report import PulledFile, PullReport
from tests.lab.payload import install_payload

KEY, RUN = "speech-1234abcd", "tiny-5678efab"


@dataclass
class Box:
    """The host, the run's folder on it, and the local mirror."""

    host: AgentHost
    run: Path
    mirror: Path
    key: str = KEY
    name: str = RUN

    @property
    def events(self) -> Path:
        return self.run / "tensorboard" / "events.out.tfevents.1700000000.box.1.0"

    @property
    def mirrored(self) -> Path:
        return self.mirror / self.events.relative_to(self.run)

    @property
    def job(self) -> Path:
        return self.run / "jobs" / "1"

    @property
    def log(self) -> Path:
        return self.job / "output.log"

    def survey(self) -> tuple[EventFile, ...]:
        return survey_events(str(self.run))

    def pull(self) -> PullReport:
        return pull_events(self.host, KEY, RUN, self.survey(), self.mirror)

    def pull_one(self) -> PulledFile:
        (file,) = self.pull().files
        return file

    def end_job(self) -> None:
        (self.job / "result.json").write_text('{"exit": 0}')


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    host = local_host(str(install_payload(tmp_path / "work")))
    run = tmp_path / "work" / ProjectLayout(KEY).run(RUN).root
    (run / "tensorboard").mkdir(parents=True)
    (run / "jobs" / "1").mkdir(parents=True)
    yield Box(host, run, tmp_path / "mirror")
    host.close()
