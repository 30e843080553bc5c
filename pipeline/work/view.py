"""What stages judge: the local facts and one survey of the host, nothing that can change under them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.config.hosts import LoadedHost
from pipeline.config.load import LoadedConfig
from pipeline.config.model import RunConfig
from pipeline.config.overrides import with_overrides
from pipeline.config.shipped import shipped_data
from pipeline.diagnosis.cures import Cure
from pipeline.judgements.host import card_name
from pipeline.records.layout import Records
from remote.policy.precision import judge_precision
from remote.project.data import DataScan
from remote.project.scan import Scan
from remote.protocol.layout import ProjectLayout
from remote.protocol.precision import PrecisionPlan
from remote.protocol.survey import Survey


@dataclass(frozen=True)
class View:
    """One project, one host, one config, at one moment. `data` is what is sent apart from code.

    `serial` tells repetitions of the same work apart; None is the newest that the host has. `cures` are what earlier
    failures of this config were healed with, `given` the words that named all this. `seen_unix` is this machine's time
    at the survey; None where the clocks cannot be compared.
    """

    loaded: LoadedConfig
    host: LoadedHost
    records: Records
    scan: Scan
    survey: Survey
    workdir: str
    data: DataScan | None = None
    serial: int | None = None
    cures: tuple[Cure, ...] = ()
    given: tuple[str, ...] = ()
    seen_unix: float | None = None

    @property
    def config(self) -> RunConfig:
        """The run's config as its jobs get it: the user's, with what cures changed."""
        changes = {key: value for cure in self.cures for key, value in cure.overrides.items()}
        return with_overrides(self.loaded.config, changes) if changes else self.loaded.config

    @property
    def layout(self) -> ProjectLayout:
        """Where the project lies on the host."""
        return ProjectLayout(self.scan.project)

    @property
    def data_digest(self) -> str:
        """The name of the data on any host; empty where none is sent."""
        return self.data.digest if self.data is not None else ""

    def with_survey(self, survey: Survey, seen_unix: float | None = None) -> View:
        """The same view with another look at the host, taken at that time."""
        return replace(self, survey=survey, seen_unix=seen_unix)

    @property
    def precision(self) -> PrecisionPlan:
        """How this run computes on the weakest of its cards."""
        gpu = self.survey.gpu
        return judge_precision(
            capability=gpu.capability if gpu else None,
            wish=self.config.precision,
            card=gpu.name if gpu else "",
        )


def data_folder(loaded: LoadedConfig) -> Path | None:
    """The folder on the laptop that is uploaded apart from code: `data.path`, or a data set that is shipped."""
    data = loaded.config.data
    if data.path is not None:
        return (loaded.root / Path(data.path).expanduser()).resolve()
    return shipped_data(data.dataset) if data.dataset else None


def data_name(loaded: LoadedConfig) -> str:
    """Where in the project `data.path` lies; empty where it lies outside of it."""
    named = loaded.config.data.path
    if named is None:
        return ""
    # Not resolved: a folder that is a link here is looked for under the link's name.
    at = Path(os.path.normpath(loaded.root / Path(named).expanduser()))
    return at.relative_to(loaded.root).as_posix() if loaded.root in at.parents else ""


def card_of(view: View) -> str:
    """The card that files are rewritten for."""
    gpu = view.survey.gpu
    return card_name(gpu) if gpu else "no card"
