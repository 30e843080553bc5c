"""Find weights that a script saved outside of `HALFSTEP_OUTPUT_DIR` or without PEFT, and how to download them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pipeline.config.host_model import HostConfig
from remote.errors import HalfstepError
from remote.host import Entry, Host
from remote.link.address import LOCAL
from remote.protocol.layout import ProjectLayout
from remote.protocol.quantities import size

ENDINGS = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
NO_WEIGHTS = ("optimizer", "scheduler", "scaler", "rng_state", "training_args", "random_states")
CODE = "code"
SHOWN = 3


@dataclass(frozen=True)
class OwnWeights:
    """Weights on a host: a message with their paths and total size, and the command that downloads them."""

    message: str
    command: str


def find_own_weights(host: Host, config: HostConfig, project: str, run: str) -> OwnWeights | None:
    """Return the weights of a run that are not a LoRA adapter, or None if there are none.

    Weights that are files of the project itself are not included.
    """
    layout = ProjectLayout(project)
    root = layout.run(run).root
    try:
        sent = {(entry.path, entry.size) for entry in host.list_files(layout.tree)}
        found = host.list_files(root)
    except HalfstepError:
        return None
    saved = [entry for entry in found if _is_weights(entry) and (_in_code(entry.path), entry.size) not in sent]
    if not saved:
        return None
    places = [f"{host.workdir}/{root}/{place}" for place in _places(saved, {entry.path for entry in found})]
    more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
    total = size(sum(entry.size for entry in saved))
    message = f"weights that are no LoRA adapter stay on {host.name}: {', '.join(places[:SHOWN])}{more} ({total})"
    return OwnWeights(message, download_command(config, places))


def _is_weights(entry: Entry) -> bool:
    path = PurePosixPath(entry.path)
    return entry.kind == "f" and path.suffix in ENDINGS and not path.name.startswith(NO_WEIGHTS)


def _in_code(path: str) -> str:
    return path.removeprefix(f"{CODE}/")


def _places(saved: Sequence[Entry], paths: set[str]) -> Iterator[str]:
    """Yield the path of each file.

    Files of a saved model are represented by their folder, which contains several weights files or a config.json.
    """
    parents = [str(PurePosixPath(entry.path).parent) for entry in saved]
    for entry, parent in zip(saved, parents, strict=True):
        model = parents.count(parent) > 1 or f"{parent}/config.json" in paths
        if not model or parent in (".", CODE):
            yield entry.path
        elif parents.index(parent) == saved.index(entry):
            yield parent


def download_command(config: HostConfig, places: Sequence[str]) -> str:
    """Return the command that copies absolute paths of the host into the current folder."""
    if config.host == LOCAL:
        return shlex.join(["cp", "-r", *places, "."])
    address = f"[{config.host}]" if ":" in config.host else config.host
    target = f"{config.user}@{address}" if config.user else address
    options = {
        "-P": str(config.port or ""),
        "-i": str(Path(config.identity_file).expanduser()) if config.identity_file else "",
        "-J": ",".join(config.proxy_jump),
        "-o": f"UserKnownHostsFile={Path(config.known_hosts).expanduser()}" if config.known_hosts else "",
    }
    given = [word for option, value in options.items() if value for word in (option, value)]
    return shlex.join(["scp", "-r", *given, *(f"{target}:{place}" for place in places), "."])
