"""The typed, frozen model of configs/hosts/*.yaml; unknown keys are errors."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat, StrictInt
from pydantic_core import PydanticCustomError

from pipeline.config.values import Frozen, Positive, SecretName, Text, VariableName
from remote.link.address import MAX_GATEWAYS
from remote.link.container import IMAGE
from remote.protocol.slurm import SBATCH_OPTION

SLURM_OPTIONS = {
    "partition": "--partition",
    "account": "--account",
    "gres": "--gres",
    "gpus": "--gpus",
    "cpus": "--cpus-per-task",
    "mem": "--mem",
    "time": "--time",
    "constraint": "--constraint",
    "qos": "--qos",
}
"""The option of sbatch for each key of `slurm:`."""
OWN_OPTIONS = (
    "job-name",
    "J",
    "output",
    "o",
    "signal",
    "requeue",
    "no-requeue",
    "chdir",
    "D",
    "array",
    "a",
    "wait",
    "W",
    "wrap",
    "parsable",
    "nodes",
    "N",
)
"""sbatch options that halfstep itself sets, or that would break the supervisor of a job."""


def _sbatch_option(option: str) -> str:
    if not re.fullmatch(SBATCH_OPTION, option):
        raise PydanticCustomError("sbatch_option", "is no sbatch option; write --name or --name=value")
    name = option.lstrip("-").partition("=")[0]
    # sbatch accepts `--outp=x` for --output=x, and `-a1-3` for -a 1-3.
    if any(own.startswith(name) if option.startswith("--") else own == name[0] for own in OWN_OPTIONS):
        raise PydanticCustomError("sbatch_option", "{name} is set by halfstep", {"name": name})
    return option


VOLUME = r"(~/?|~?/[^:,\n]+)(:(~?/)[^:,\n]+)?(:ro)?"
WHOLE_MACHINE = re.compile(r"/*|.*/\.\.?(/.*)?|/+proc(/.*)?")
"""Paths that are, or may be, another spelling of `/`, which contains the home folders of all users. `/proc/1/root` is a
link to it."""
SlurmText = Annotated[Text, Field(pattern=r"^[^\s\n]+$")]


class SlurmConfig(Frozen):
    """The resources that a job requests from Slurm.

    `cpus` are per node. A number is MB per node in `mem` and minutes in `time`.
    """

    partition: SlurmText | None = None
    account: SlurmText | None = None
    gres: SlurmText | None = None
    gpus: Positive | SlurmText | None = None
    nodes: Positive | None = None
    cpus: Positive | None = None
    mem: Positive | SlurmText | None = None
    time: Positive | SlurmText | None = None
    constraint: SlurmText | None = None
    qos: SlurmText | None = None
    extra: tuple[Annotated[Text, AfterValidator(_sbatch_option)], ...] = ()
    max_jobs: Positive | None = None


Address = Annotated[Text, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$")]
Cards = tuple[Annotated[StrictInt, Field(ge=0, le=4096)], ...]


def _expand_image(container: Any) -> Any:
    """Return the settings of a container. The config may contain only the name of the image."""
    return {"image": container} if isinstance(container, str) else container


def _image(name: str) -> str:
    if not IMAGE.fullmatch(name):
        raise PydanticCustomError("image", "must be the name of an image, or the path of a .sif file")
    return name


def _volume(text: str) -> str:
    if not re.fullmatch(VOLUME, text):
        message = (
            "must be PATH, SOURCE:TARGET or SOURCE:TARGET:ro; a path is absolute or begins with ~/, and has no comma"
        )
        raise PydanticCustomError("volume", message)
    if any(WHOLE_MACHINE.fullmatch(path) for path in text.removesuffix(":ro").split(":")):
        raise PydanticCustomError("volume", "must be a folder below /, without `.` and `..`, and not below /proc")
    return text


def _user(user: Any) -> Any:
    text = str(user) if type(user) is int else user
    if not (isinstance(text, str) and re.fullmatch(r"[0-9]+(:[0-9]+)?", text)):
        raise PydanticCustomError("user_id", 'must be a user id, or "UID:GID"')
    return text


class ContainerConfig(Frozen):
    """A container in which everything runs.

    `engine` null selects the first engine that is found on the host. `gpus` auto selects all cards if nvidia-smi finds
    any; the host's `gpus` choose among these cards. `user` null selects the login user.
    """

    image: Annotated[Text, AfterValidator(_image)]
    engine: Literal["docker", "podman", "apptainer"] | None = None
    shm_size: Annotated[Text, Field(pattern=r"^[1-9][0-9]*[bkmg]$")] | None = None
    volumes: tuple[Annotated[Text, AfterValidator(_volume)], ...] = ()
    gpus: Literal["auto", "all", "none"] = "auto"
    user: Annotated[Text, BeforeValidator(_user, json_schema_input_type=str | int)] | None = None


Container = Annotated[ContainerConfig, BeforeValidator(_expand_image, json_schema_input_type=str | ContainerConfig)]
"""The settings of a container, or only the name of its image."""


def _gateways(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) > MAX_GATEWAYS:
        raise PydanticCustomError("gateways", "has more than {most} gateways", {"most": MAX_GATEWAYS})
    return names


class HostConfig(Frozen):
    """The keys of configs/hosts/NAME.yaml. An alias of ~/.ssh/config needs no such file."""

    host: Text
    port: Annotated[StrictInt, Field(ge=1, le=65535)] | None = None
    user: Text | None = None
    identity_file: Text | None = None
    known_hosts: Text | None = None
    host_key: Text | None = Field(None, description="SHA256:... of the only accepted host key")
    proxy_jump: Annotated[tuple[Text, ...], AfterValidator(_gateways)] = ()
    workdir: Text = "~/halfstep"
    python: Text | None = None
    gpus: Cards | None = None
    address: Address | None = Field(None, description="name or IPv4 address by which other hosts reach this one")
    card: Text | StrictInt | FiniteFloat | None = None
    container: Container | None = None
    scheduler: Literal["slurm"] | None = None
    slurm: SlurmConfig | None = None
    env: dict[VariableName, Text] = {}
    secrets: tuple[SecretName, ...] = ()
