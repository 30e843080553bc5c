"""Find weights that a script saved outside of `HALFSTEP_OUTPUT_DIR` or without PEFT, and how to download them."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath

from pipeline.config.host_model import HostConfig
from pipeline.hosts.torch_files import find_torch_files, read_head
from remote.errors import HalfstepError
from remote.host import Entry, Host
from remote.link.address import LOCAL
from remote.project.paths import expanded
from remote.protocol.data_files import without_data
from remote.protocol.dataclass import dataclass
from remote.protocol.layout import ProjectLayout
from remote.protocol.quantities import size
from remote.protocol.shell import command_line
from remote.protocol.text import one_line

ENDINGS = (".safetensors", ".pt", ".pth", ".th", ".bin", ".ckpt")
NO_WEIGHTS = ("optimizer", "scheduler", "scaler", "rng_state", "training_args", "random_states")
CODE = "code"
EARLIER_CODE = re.compile(r"code-before-job-\d+-[0-9a-f]+")
TOP = (".", CODE)
CONFIGS = ("config.json", "adapter_config.json")
SHOWN = 3
MOST = 200
"""The number of files and folders that one command downloads."""
MOST_LEVELS = 20
"""The number of folders above a file or folder that the command downloads. The paths are compared level by level."""
OWN_WEIGHTS = "own-weights"
PLAIN_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,+=@-]*")
PLAIN_FOLDER = re.compile(r"/[A-Za-z0-9_./,+=@-]*")


@dataclass(frozen=True)
class OwnWeights:
    """Weights on a host: a message with their paths and total size, and the command that downloads them, or ""."""

    message: str
    command: str


def find_own_weights(host: Host, config: HostConfig, project: str, run: str, folder: Path) -> OwnWeights | None:
    """Return the weights that the script of a run saved itself, or None if there are none.

    Files of the project itself are not included. The command downloads the weights with plain names
    into a new folder in `folder`, so that no name that the host reports overwrites another file of the laptop.
    """
    layout = ProjectLayout(project)
    root = layout.run(run).root
    try:
        sent = {(entry.path, entry.size) for entry in host.list_files(layout.tree)}
        found = host.list_files(root)
    except HalfstepError:
        return None
    saved = _saved_weights(host, root, [entry for entry in found if (_in_code(entry.path), entry.size) not in sent])
    if not saved:
        return None
    within = list(_places(saved, {entry.path for entry in found}))
    places = [f"{host.workdir}/{root}/{place}" for place in within]
    more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
    total = size(sum(entry.size for entry in saved))
    shown = one_line(", ".join(places[:SHOWN]))
    message = f"weights that the script saved itself stay on {host.name}: {shown}{more} ({total})"
    named = _without_equal_names([name for name in within[:MOST] if _is_plain(host.workdir, name)])
    plain = [f"{host.workdir}/{root}/{name}" for name in named]
    return OwnWeights(message, download_command(config, plain, folder / OWN_WEIGHTS) if plain else "")


def _saved_weights(host: Host, root: str, new: Sequence[Entry]) -> list[Entry]:
    """Return the files among those that the run wrote which end as weights do, or which `torch.save` wrote.

    Data such as features are left out. If the host does not answer, only the paths are judged.
    """
    possible = [entry for entry in new if not PurePosixPath(entry.path).name.startswith(NO_WEIGHTS)]
    without_ending = find_torch_files(host, root, possible)
    named = [entry.path for entry in possible if _is_weights(entry) or entry.path in without_ending]
    weights = set(without_data(named, partial(_head, host, root)))
    return [entry for entry in possible if entry.path in weights]


def _head(host: Host, root: str, path: str) -> bytes:
    with suppress(HalfstepError, OSError):
        return read_head(host, f"{root}/{path}")
    return b""


def _is_plain(workdir: str, name: str) -> bool:
    """Return True if neither path has `..` or special characters, and the relative path `name` no hidden parts.

    A path in more than MOST_LEVELS folders is not plain either.
    """
    plain_folder = PLAIN_FOLDER.fullmatch(workdir) is not None and ".." not in workdir.split("/")
    return plain_folder and name.count("/") <= MOST_LEVELS and all(map(PLAIN_PART.fullmatch, name.split("/")))


def _is_weights(entry: Entry) -> bool:
    return entry.kind == "f" and PurePosixPath(entry.path).suffix in ENDINGS


def _in_code(path: str) -> str:
    """Return the path within the run's code, or within the code of its earlier jobs (`code-before-job-N-...`)."""
    folder, _, name = path.partition("/")
    return name if folder == CODE or EARLIER_CODE.fullmatch(folder) else path


def _places(saved: Sequence[Entry], paths: set[str]) -> Iterator[str]:
    """Yield the path of each file.

    Files of a saved model or adapter are represented by their folder, which contains several weights files or a config.
    """
    parents = {entry.path: str(PurePosixPath(entry.path).parent) for entry in saved}
    counts, shown = Counter(parents.values()), set[str]()
    for path, parent in parents.items():
        model = counts[parent] > 1 or any(f"{parent}/{name}" in paths for name in CONFIGS)
        if not model or parent in TOP:
            yield path
        elif parent not in shown:
            shown.add(parent)
            yield parent


def _without_equal_names(places: Sequence[str]) -> list[str]:
    """Return the paths, or folders above them, so that each has another name: they are copied into one folder.

    Of two paths with equal names at the top of a run, only the first is returned.
    """
    found = list(places)
    while True:
        counts = Counter(PurePosixPath(place).name for place in found)
        above = [_above(place) if counts[PurePosixPath(place).name] > 1 else place for place in found]
        chosen = set(above)
        above = [place for place in dict.fromkeys(above) if chosen.isdisjoint(map(str, PurePosixPath(place).parents))]
        if above == found:
            return list({PurePosixPath(place).name: place for place in reversed(found)}.values())[::-1]
        found = above


def _above(place: str) -> str:
    parent = str(PurePosixPath(place).parent)
    return place if parent in TOP else parent


def download_command(config: HostConfig, places: Sequence[str], folder: Path) -> str:
    """Return the command that copies absolute paths of the host into a new folder: `folder`, or `folder-2` and so on.

    A cloned project may contain such a folder with links. The command then copies nothing, because `mkdir` fails. `scp`
    verifies the host key by the user's own known_hosts: with the file of `known_hosts:`, it would accept keys of a
    project that halfstep refuses, because that file would replace the user's own.
    """
    names = itertools.chain([folder], (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2)))
    new = str(next(name for name in names if not os.path.lexists(name)))
    made, copied = command_line(["mkdir", new]), command_line([*_copy(config, places), new])
    return f"{made} && {copied}" if made and copied else ""


def _copy(config: HostConfig, places: Sequence[str]) -> list[str]:
    if config.host == LOCAL:
        return ["cp", "-r", *places]
    address = f"[{config.host}]" if ":" in config.host else config.host
    target = f"{config.user}@{address}" if config.user else address
    options = {
        "-P": str(config.port or ""),
        "-i": str(expanded(config.identity_file)) if config.identity_file else "",
        "-J": ",".join(config.proxy_jump),
    }
    given = [word for option, value in options.items() if value for word in (option, value)]
    return ["scp", "-r", *given, *(f"{target}:{place}" for place in places)]
