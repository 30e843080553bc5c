"""An immutable view of a project, a host and a config: local facts and one survey of the host."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from pipeline.config.hosts import LoadedHost
from pipeline.config.load import LoadedConfig
from pipeline.config.model import RunConfig
from pipeline.config.overrides import with_overrides
from pipeline.config.shipped import shipped_data
from pipeline.diagnosis.cures import Cure
from pipeline.judgements.host import card_name
from pipeline.records.layout import Records
from pipeline.runs.group import Group
from remote.policy.precision import judge_precision
from remote.project.data import DataScan
from remote.project.paths import expanded, resolved
from remote.project.scan import Scan
from remote.protocol.dataclass import dataclass, field
from remote.protocol.layout import ProjectLayout
from remote.protocol.precision import PrecisionPlan
from remote.protocol.survey import Survey


@dataclass(frozen=True)
class View:
    """One project, one host and one config at one moment.

    `data` is uploaded separately from the code. `serial` is the number of a repetition with equal inputs; None selects
    the highest serial on the host. `resume` is the id of the run to resume even if its inputs have changed. `cures`
    are the recorded cures of this config. `given` are the command-line words that selected host and config. `seen_unix`
    is the local time of the survey, or None if the clocks cannot be compared. `group` is set if the host trains
    together with other hosts. `computed` are digests of this view that take long to compute, by name.
    """

    loaded: LoadedConfig
    host: LoadedHost
    records: Records
    scan: Scan
    survey: Survey
    workdir: str
    data: DataScan | None = None
    serial: int | None = None
    resume: str = ""
    cures: tuple[Cure, ...] = ()
    given: tuple[str, ...] = ()
    seen_unix: float | None = None
    group: Group | None = None
    computed: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def config(self) -> RunConfig:
        """The run's config with the overrides of its cures."""
        changes = {key: value for cure in self.cures for key, value in cure.overrides.items()}
        return with_overrides(self.loaded.config, changes) if changes else self.loaded.config

    @property
    def layout(self) -> ProjectLayout:
        """The paths of the project on the host."""
        return ProjectLayout(self.scan.project)

    @property
    def data_digest(self) -> str:
        """The digest of the data, which is also the name of the data's folder on the host. "" without data."""
        return self.data.digest if self.data is not None else ""

    def with_survey(self, survey: Survey, seen_unix: float | None = None) -> View:
        """Return the view with a new survey of the host, taken at the time `seen_unix`."""
        return replace(self, survey=survey, seen_unix=seen_unix)

    @property
    def precision(self) -> PrecisionPlan:
        """The precision plan for the weakest card of the run."""
        gpu = self.survey.gpu
        return judge_precision(
            capability=gpu.capability if gpu else None,
            requested=self.config.precision,
            card=gpu.name if gpu else "",
        )


def data_folder(loaded: LoadedConfig) -> Path | None:
    """Return the folder that is uploaded separately from the code: `data.path`, a shipped data set, or None."""
    data = loaded.config.data
    if data.path is not None:
        return resolved(loaded.root / expanded(data.path))
    return shipped_data(data.dataset) if data.dataset else None


def data_name(loaded: LoadedConfig) -> str:
    """Return `data.path` relative to the project, or "" if `data.path` is outside or not set."""
    named = loaded.config.data.path
    if named is None:
        return ""
    # A symbolic link is not resolved, because scripts use the name of the link.
    at = Path(os.path.normpath(loaded.root / expanded(named)))
    return at.relative_to(loaded.root).as_posix() if loaded.root in at.parents else ""


def card_of(view: View) -> str:
    """Return the name of the card for which files are rewritten, or "no card"."""
    gpu = view.survey.gpu
    return card_name(gpu) if gpu else "no card"
