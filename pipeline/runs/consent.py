"""Ask the user to confirm that a project's config may send secrets, or files from outside of the project."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from pipeline.config.find import is_shipped_config
from pipeline.config.load import LoadedConfig, folder_of
from pipeline.records.consents import consents, is_confirmed, keep_consent
from pipeline.runs.view import data_folder
from remote.errors import DataUntrusted, SecretsUntrusted
from remote.link.prompter import Prompter
from remote.project.data import outside_of
from remote.project.repository import find_repository, repository_at
from remote.protocol.text import one_line

UNCONFIRMED = "and you have not confirmed that; nothing was sent"


def require_project_consent(
    loaded: LoadedConfig,
    prompter: Prompter | None,
    *,
    typed: bool,
    command: str = "pipeline run",
    environment: Mapping[str, str] | None = None,
) -> None:
    """Ask the user to confirm a `project:` outside of the config's own project.

    Raises DataUntrusted. Without the confirmation, a cloned project could upload neighbouring folders unnoticed. The
    confirmation is stored in the user's configuration folder. The hint repeats `command`.
    """
    own, root = own_project(loaded), loaded.root
    if typed or root.is_relative_to(own):
        return
    kept = consents("trusted_data", os.environ if environment is None else environment)
    message = one_line(
        f"project {loaded.config.project} of {loaded.path} takes files from {_describe_path(root)}, outside of {own}"
    )
    if not _has_consent(kept, (str(own), str(root)), prompter, f"{message}.\nMay they be sent to the host?"):
        raise DataUntrusted(
            f"{message}, {UNCONFIRMED}", where="project", hint=_command_to_confirm(command, f"project={root}")
        )


def own_project(loaded: LoadedConfig) -> Path:
    """Return the resolved root of the project that contains the config: the git work tree, else the parent of configs/.

    A work tree is ignored if it contains the home folder, or if its index does not contain the config: a project may
    have been unpacked inside a larger repository of the user. The folder `configs` itself may be a git clone. For a
    built-in config, return the root of the config's project.
    """
    if is_shipped_config(loaded.path):
        return loaded.root
    folder = folder_of(loaded.path).resolve()
    inner, outer = repository_at(loaded.path.parent), find_repository(folder)
    own = folder if inner is None or _contains_home(inner.work_tree.resolve()) else inner.work_tree.resolve()
    if outer is None or _contains_home(tree := outer.work_tree.resolve()):
        return own
    file = loaded.path.parent.resolve() / loaded.path.name
    tracked = tree == own or (file.is_relative_to(tree) and file.relative_to(tree).as_posix() in outer.tracked_paths())
    return tree if tracked else own


def require_data_consent(
    loaded: LoadedConfig,
    prompter: Prompter | None,
    *,
    typed: bool,
    command: str = "pipeline run",
    environment: Mapping[str, str] | None = None,
) -> None:
    """Ask the user to confirm every folder outside of the project from which data is uploaded. Raises DataUntrusted.

    Without the confirmation, a cloned project could upload the user's files unnoticed. The confirmation is stored in
    the user's configuration folder, for this project and this data folder. The hint repeats `command`.
    """
    folder, named = data_folder(loaded), loaded.config.data.path
    if typed or named is None or folder is None:
        return
    kept = consents("trusted_data", os.environ if environment is None else environment)
    for place in outside_of(folder, loaded.root):
        message = one_line(
            f"data.path {named} of {loaded.path} takes data from {_describe_path(place)}, outside of the project"
        )
        fields = (str(loaded.root), str(place))
        if not _has_consent(kept, fields, prompter, f"{message}.\nMay it be sent to the host?"):
            setting = f"data.path={Path(named).expanduser()}"
            raise DataUntrusted(
                f"{message}, {UNCONFIRMED}", where="data.path", hint=_command_to_confirm(command, setting)
            )


def require_secret_consent(
    loaded: LoadedConfig,
    prompter: Prompter | None,
    *,
    typed: bool,
    command: str = "pipeline run",
    environment: Mapping[str, str] | None = None,
) -> None:
    """Ask the user to confirm that the config's `secrets:` may be sent to the host. Raises SecretsUntrusted.

    Without the confirmation, a cloned project could send any variable of the user's environment unnoticed. The
    confirmation is stored in the user's configuration folder, for this file and these names. The hint repeats
    `command`.
    """
    names = sorted(set(loaded.config.secrets))
    if typed or not names or is_shipped_config(loaded.path):
        return
    kept = consents("trusted_secrets", os.environ if environment is None else environment)
    message = one_line(f"{loaded.path} requests {', '.join(names)} from the local environment")
    fields = (" ".join(names), str(loaded.path.resolve()))
    if not _has_consent(kept, fields, prompter, f"{message}.\nMay the values be sent to the host?"):
        setting = f"secrets=[{','.join(names)}]"
        raise SecretsUntrusted(f"{message}, {UNCONFIRMED}", where="secrets", hint=_command_to_confirm(command, setting))


def _has_consent(kept: Path, fields: tuple[str, ...], prompter: Prompter | None, question: str) -> bool:
    """Return True if the user confirmed the fields earlier or confirms them now. A new confirmation is stored."""
    if is_confirmed(kept, *fields):
        return True
    if prompter is None or not prompter.confirm(question):
        return False
    keep_consent(kept, *fields)
    return True


def _command_to_confirm(command: str, setting: str) -> str:
    return f"{command} --set {shlex.quote(setting)}"


def _describe_path(place: Path) -> str:
    return f"{place} (your home folder)" if _contains_home(place) else str(place)


def _contains_home(place: Path) -> bool:
    return Path("~").expanduser().resolve().is_relative_to(place)
