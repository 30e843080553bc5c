"""Ask the user to confirm what a project takes from the laptop, and the hosts that train together with it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pipeline.config.find import is_shipped_config
from pipeline.config.hosts import LoadedHost
from pipeline.config.load import LoadedConfig, folder_of
from pipeline.hosts.pinned_keys import destination_of
from pipeline.records.consents import is_confirmed, keep_consent
from pipeline.runs.view import data_folder
from remote.errors import DataUntrusted, HostFileUntrusted, SecretsUntrusted
from remote.link.address import LOCAL, is_this_machine
from remote.link.prompter import Prompter, confirms
from remote.project.data import outside_of
from remote.project.links_out import contains_home, project_left
from remote.project.paths import expanded, resolved
from remote.project.repository import find_repository, repository_at
from remote.project.user_folder import user_file
from remote.protocol.dataclass import dataclass
from remote.protocol.shell import command_line, shell_command
from remote.protocol.text import one_line


@dataclass(frozen=True)
class Transfer:
    """What a project takes from the laptop, and the `setting` that confirms it on the command line.

    A confirmation is stored as `fields` in the user's file `kept`. If the setting also confirms what the message does
    not name, `in_part` is True, and the setting is not proposed.
    """

    message: str
    setting: str
    kept: str
    fields: tuple[str, ...]
    error: type[DataUntrusted | SecretsUntrusted] = DataUntrusted
    in_part: bool = False


def require_project_consent(
    loaded: LoadedConfig,
    prompter: Prompter | None,
    *,
    typed: bool,
    host: LoadedHost | None,
    command: str = "pipeline run",
) -> None:
    """Ask the user to confirm a `project:` outside of the config's own project.

    Otherwise a cloned project could upload the folders next to it unnoticed. A confirmation is valid for one machine.
    The user did not choose where a typed path leads through a link out of a project.
    """
    own, root = own_project(loaded), loaded.root
    if root.is_relative_to(own) or (typed and project_left(loaded.spelled) is None):
        return
    named = f"project {loaded.config.project} of {loaded.path}"
    message = f"{named} takes files from {_describe_path(root)}, outside of {own}"
    _require(
        Transfer(message, f"project={root}", "trusted_data", ("project", str(own), str(root))), prompter, command, host
    )


def require_data_consent(
    loaded: LoadedConfig,
    prompter: Prompter | None,
    *,
    typed: bool,
    host: LoadedHost | None,
    command: str = "pipeline run",
) -> tuple[Path, ...] | None:
    """Ask the user to confirm every folder outside of the project from which data is uploaded. Raises DataUntrusted.

    Otherwise a cloned project could upload the user's files unnoticed. A confirmation is valid for one machine. No
    folder is read before it is confirmed. Return the folders from which `scan_data` may read, or None for data that
    needs no confirmation. The user did not choose where a typed path leads through a link out of a project; but with
    `--host local`, nothing leaves this machine.
    """
    folder, path = data_folder(loaded), loaded.config.data.path
    if path is None or folder is None:
        return None
    is_local = host is not None and host.config.host == LOCAL
    is_linked = not is_local and project_left(loaded.root / expanded(path)) is not None
    if typed and not is_linked:
        return None
    named, setting = f"data.path {path} of {loaded.path}", f"data.path={folder if is_linked else expanded(path)}"
    places, own = [loaded.root], own_project(loaded)
    for place in outside_of(folder, loaded.root):
        message = f"{named} takes data from {_describe_path(place)}, outside of the project"
        fields = ("data", str(loaded.root), str(place))
        # The links inside of a folder that came with the project were made by its author.
        in_part = place != resolved(folder) or place.is_relative_to(own)
        _require(Transfer(message, setting, "trusted_data", fields, in_part=in_part), prompter, command, host)
        places.append(place)
    return tuple(places)


def require_secret_consent(
    loaded: LoadedConfig,
    prompter: Prompter | None,
    *,
    typed: bool,
    host: LoadedHost | None,
    command: str = "pipeline run",
) -> None:
    """Ask the user to confirm that the config's `secrets:` may be sent to the host. Raises SecretsUntrusted.

    Otherwise a cloned project could read any variable of the user's environment unnoticed. A confirmation is valid for
    one machine: later, the host file of the project might select another one.
    """
    names = sorted(set(loaded.config.secrets))
    if typed or not names:
        return
    message = f"{loaded.path} requests {', '.join(names)} from the local environment"
    setting, fields = f"secrets=[{','.join(names)}]", (" ".join(names), str(loaded.path.absolute()))
    _require(Transfer(message, setting, "trusted_secrets", fields, SecretsUntrusted), prompter, command, host)


def require_group_consent(hosts: Sequence[LoadedHost], prompter: Prompter | None) -> None:
    """Ask the user to confirm that this machine trains together with other hosts. Raises HostFileUntrusted.

    torchrun unpickles what the hosts exchange, so each of them can run code on the others. A confirmation is valid for
    the same machines. If `local` is among the hosts, every other host counts as another machine, also at an address of
    this machine, because the address may be a tunnel.
    """
    with_local = any(host.config.host == LOCAL for host in hosts)
    others = [
        host for host in hosts if host.config.host != LOCAL and (with_local or not is_this_machine(host.config.host))
    ]
    if not others or len(others) == len(hosts):
        return
    kept, fields = user_file("trusted_groups", os.environ), sorted(destination_of(host) for host in others)
    if is_confirmed(kept, *fields):
        return
    names = one_line(", ".join(f"{host.name} ({host.config.host})" for host in others))
    message = (
        f"in a training with this machine, {names} can run code as you on this machine, because torch unpickles data"
    )
    if not confirms(prompter, message, "Do you trust these hosts that far?"):
        raise HostFileUntrusted(
            f"{message}, and you have not confirmed that",
            where="--host",
            hint=shell_command("pipeline run --host {}", ",".join(host.name for host in others)),
        )
    keep_consent(kept, *fields)


def _require(transfer: Transfer, prompter: Prompter | None, command: str, host: LoadedHost | None) -> None:
    """Ask the user to confirm the transfer to the host, unless it was confirmed before. The hint repeats `command`.

    `host` is None for an export, whose machine is not known yet. Such a confirmation is valid for no host.
    """
    kept, message = user_file(transfer.kept, os.environ), one_line(transfer.message)
    fields = (*transfer.fields, *([destination_of(host)] if host is not None else []))
    if is_confirmed(kept, *fields):
        return
    target = one_line(f"{host.name} ({host.config.host})") if host is not None else "the host"
    if not confirms(prompter, transfer.message, f"May they be sent to {target}?"):
        option = command_line(["--set", transfer.setting])
        hint = f"{command}   (at a terminal, which asks about each such folder)" if transfer.in_part else ""
        raise transfer.error(
            f"{message}, and you have not confirmed that; nothing was sent",
            where=transfer.setting.partition("=")[0],
            hint=hint or (f"{command} {option}" if option else ""),
        )
    keep_consent(kept, *fields)


def own_project(loaded: LoadedConfig) -> Path:
    """Return the resolved root of the project that contains the config: the git work tree, else the parent of configs/.

    A work tree is ignored if it contains the home folder, or if its index does not contain the config: a project may
    have been unpacked inside a larger repository of the user. The folder `configs` itself may be a git clone. For a
    shipped config, return the root of the config's project. If a link leads out of a project to the config, return
    that project.
    """
    if is_shipped_config(loaded.path):
        return project_left(loaded.spelled) or loaded.root
    if (left := project_left(folder_of(loaded.path))) is not None:
        return left
    folder = resolved(folder_of(loaded.path))
    inner, outer = repository_at(loaded.path.parent), find_repository(folder)
    own = folder if inner is None or contains_home(resolved(inner.work_tree)) else resolved(inner.work_tree)
    if outer is None or contains_home(tree := resolved(outer.work_tree)):
        return own
    file = resolved(loaded.path.parent) / loaded.path.name
    tracked = tree == own or (file.is_relative_to(tree) and file.relative_to(tree).as_posix() in outer.tracked_paths())
    return tree if tracked else own


def _describe_path(place: Path) -> str:
    return f"{place} (your home folder)" if contains_home(place) else str(place)
