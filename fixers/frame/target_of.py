"""Compute the target of a site: the card, and package versions from the host or the project's pins."""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import normpath

from fixers.frame.pins import pins_by_folder, project_pins
from fixers.frame.site import Site
from fixers.frame.target import Target


def target_of(site: Site) -> Target:
    """Return the target. Without a host, the package versions are the newest versions that the project's pins allow."""
    packages: Mapping[str, str] = site.survey.interpreter.packages if site.survey is not None else {}
    pins: dict[str, dict[str, str]] = {}
    on_host = bool(packages)
    if not packages:
        pins = pins_by_folder(site.tree)
        packages = project_pins(pins)
    return Target(site.gpu, packages, site.settings, started=started_by(site), pins=pins, on_host=on_host)


def started_by(site: Site) -> tuple[str, ...]:
    """Return the paths of the files that the config's command starts, as a path or as a module (`-m tools.export`)."""
    command = site.config.get("command") or ()
    words = command.split() if isinstance(command, str) else [str(word) for word in command]
    names = {normpath(word) for word in words} | {f"{word.replace('.', '/')}.py" for word in words}
    return tuple(sorted(names & set(site.tree.paths()))) if names else ()
