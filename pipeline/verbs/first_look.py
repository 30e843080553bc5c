"""Survey a new host for `pipeline init`, given its address or an ssh command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.config.destination import parse_destination
from pipeline.config.hosts import load_host
from pipeline.hosts.connection import connected, survey_host
from pipeline.show.screen import Screen
from remote.errors import HalfstepError
from remote.link.prompter import Prompter
from remote.protocol.dataclass import dataclass, field
from remote.protocol.layout import WORKDIR_OF_VOLUME
from remote.protocol.survey import Survey

HOME_WORKDIR = "~/halfstep"
PROJECT = "init"


@dataclass(frozen=True)
class FirstLook:
    """A host's address, the other connection keys for the host file, and the host's survey.

    `survey` is None if the host was not surveyed.
    """

    address: str = ""
    reach: Mapping[str, Any] = field(default_factory=dict)
    survey: Survey | None = None

    @property
    def has_torch(self) -> bool | None:
        """Return True if the interpreter of the host has torch, False if not, and None if this is unknown."""
        return None if self.survey is None else self.survey.interpreter.torch is not None

    @property
    def has_card(self) -> bool:
        """Return True if the host reported a card."""
        return self.survey is not None and bool(self.survey.gpus)

    @property
    def volume(self) -> str:
        """Return the persistent volume to use if the home folder is deleted with the container, else ""."""
        return self.survey.disk.volume if self.survey is not None else ""

    @property
    def workdir(self) -> str:
        """Return the folder for projects."""
        return f"{self.volume}/{WORKDIR_OF_VOLUME}" if self.volume else HOME_WORKDIR

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables for the host. With a volume, downloaded models are kept on the volume."""
        return {"HF_HOME": f"{self.volume}/huggingface"} if self.volume else {}


def look_at(destination: str, cwd: Path, screen: Screen, prompter: Prompter | None) -> FirstLook:
    """Survey the host, and report facts that affect its configs. No files remain on the host. Raises BadUsage."""
    parsed = parse_destination(destination)
    values = parsed.values(cwd)
    look = FirstLook(values.pop("host"), values)
    if parsed.ignored:
        screen.note(f"not used by halfstep: {' '.join(parsed.ignored)}")
    host = load_host(destination, cwd)
    try:
        with connected(host, keep=False, prompter=prompter) as link:
            survey = survey_host(link, host, PROJECT)
    except HalfstepError as error:
        screen.note(f"{host.name} could not be queried: {error.message}")
        return look
    look = FirstLook(look.address, look.reach, survey)
    screen.note(f"{host.name}: {_described(survey)}")
    if survey.disk.volume:
        screen.note(
            f"the home folder is deleted with the container, so workdir and HF_HOME are on {survey.disk.volume}"
        )
    return look


def _described(survey: Survey) -> str:
    python = survey.interpreter
    version = ".".join(map(str, python.version[:3]))
    torch = f"torch {python.torch.version}" if python.torch else "no torch"
    cards = ", ".join(gpu.name for gpu in survey.gpus) or "no card"
    return f"Python {version}, {torch}, {cards}" if version else f"{python.path} does not run, {cards}"
