"""Start processes in a container on a host. There is one long-lived container per user, image, workdir and settings."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from remote.errors import BadUsage, ContainerUnavailable
from remote.link.streams import ProcessStream, Starter
from remote.protocol.dataclass import dataclass
from remote.protocol.layout import OTHER_WORKDIR, TRUST_OWNER
from remote.protocol.shell import on_host, shell_command

IMAGE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._/:@-]{0,254})|((~/|/)[^\0\n:,]{1,1000}\.sif)")
PROBLEM = re.compile(r"^no container \(([a-z]+) (docker|podman|apptainer|)\): ?(.*)$", re.MULTILINE)
HINTS = {
    "engine": "sudo apt-get install podman",
    "volume": "correct `container.volumes` in the host file",
    "foreign": OTHER_WORKDIR,
    "workdir": OTHER_WORKDIR,
    "shared": f"run `chmod go-w` on that path, or {OTHER_WORKDIR}",
    "user": "remove `container.user` from the host file",
}
PODMAN_CARDS = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
DOCKER_CARDS = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
NO_PERMISSION = ("permission denied while trying to connect", "got permission denied")
NO_GPU_RUNTIME = ("could not select device driver", "unresolvable cdi", "nvidia-container")


@dataclass(frozen=True)
class Container:
    """The `container:` settings of a host file.

    If `engine` is None, the first engine that is found is used. If `shm_size` is None, the host's size is used. A
    volume is `PATH`, `SOURCE:TARGET` or `SOURCE:TARGET:ro`. `gpus` is auto, all or none. `user` is UID or UID:GID; None
    means the ids of the user who connects.
    """

    image: str
    engine: str | None = None
    shm_size: str | None = None
    volumes: tuple[str, ...] = ()
    gpus: str = "auto"
    user: str | None = None

    def __post_init__(self) -> None:
        if not IMAGE.fullmatch(self.image):
            raise BadUsage(f"container {self.image!r} is not an image name", where="container")

    def arguments(self, workdir: str, trusts_owners: bool) -> tuple[str, ...]:
        """Return the arguments of container.sh that precede `--`."""
        settings = (self.engine or "", self.shm_size or "", self.gpus, self.user or "", "1" if trusts_owners else "0")
        return (self.image, self.name(workdir), workdir, *settings, *self.volumes)

    def name(self, workdir: str) -> str:
        """Return the prefix of the container's name, which differs for each image, workdir and setting.

        container.sh appends the user's id on the host.
        """
        settings = (self.image, workdir, self.engine, self.shm_size, self.volumes, self.gpus, self.user)
        return f"halfstep-{hashlib.sha256(repr(settings).encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


@cache
def _script() -> str:
    return Path(__file__).with_name("container.sh").read_text(encoding="utf-8")


class ContainerStarter:
    """Starts processes in a container, and creates the container if it does not exist.

    `outside` starts processes on the machine itself.
    """

    def __init__(self, outside: Starter, container: Container, workdir: str, trusts_owners: bool = False) -> None:
        self._outside = outside
        self._arguments = container.arguments(workdir, trusts_owners)

    def start(self, argv: Sequence[str]) -> ProcessStream:
        return self._outside.start(("/bin/sh", "-c", _script(), "sh", *self._arguments, "--", *argv))

    def describe(self) -> tuple[tuple[str, str], ...]:
        return self._outside.describe()

    def warnings(self) -> tuple[str, ...]:
        return self._outside.warnings()

    def close(self) -> None:
        """Close the connection; the container and the processes in it keep running."""
        self._outside.close()


def no_container(stderr: str, image: str, host: str) -> ContainerUnavailable | None:
    """Return the error for a message that container.sh has written to stderr, or None if there is no such message."""
    match = PROBLEM.search(stderr)
    if match is None:
        return None
    step, _, problem = match.groups()
    untrusted = step == "untrusted"
    hint = shell_command(TRUST_OWNER, host) if untrusted else _hint(match, image, host)
    error = ContainerUnavailable(f"{host}: no container: {problem}", where=host, hint=hint)
    error.owner_untrusted = untrusted
    return error


def _hint(match: re.Match[str], image: str, host: str) -> str:
    """Return a command that removes the cause, or a command that shows the engine's full message."""
    step, engine, problem = match[1], match[2] or "docker", match[3].lower()
    if step in HINTS:
        return on_host(HINTS[step], host=host)
    if any(phrase in problem for phrase in NO_PERMISSION):
        return on_host('sudo usermod -aG docker "$USER", then log in again', host=host)
    if any(phrase in problem for phrase in NO_GPU_RUNTIME):
        return on_host(PODMAN_CARDS if engine == "podman" else DOCKER_CARDS, host=host)
    if step == "daemon" and engine == "docker":
        return on_host("sudo systemctl start docker", host=host)
    if step == "daemon":
        return on_host("{} version", engine, host=host)
    return _image_hint(step, engine, image, host)


def _image_hint(step: str, engine: str, image: str, host: str) -> str:
    """Return the command that pulls or runs the image without halfstep."""
    if step == "image":
        source = "docker://" if engine == "apptainer" and "://" not in image else ""
        return on_host("{} pull {}", engine, f"{source}{image}", host=host)
    if image.startswith("~/"):
        return on_host("apptainer exec ~/{} true", image[2:], host=host)
    if engine == "apptainer":
        return on_host("apptainer exec {} true", image, host=host)
    return on_host("{} run --rm {} true", engine, image, host=host)
