"""Links of a project that lead out of it: the project chose where they lead, even if the user typed their path."""

from __future__ import annotations

from pathlib import Path

from remote.project.paths import expanded, is_folder, resolved
from remote.project.real_paths import is_inside
from remote.project.records_folder import RECORDS_FOLDER
from remote.project.repository import find_repository

MOST_LINKS = 40
"""The kernel follows no more links in a path."""


def project_left(path: Path) -> Path | None:
    """Return the project out of which a link in the path leads, or None if no project chose the place.

    A project is a git work tree, or a folder with configs/ or `.halfstep/`. A folder that contains the home folder is
    never one. A link that is in no project is the user's own, such as the link to a whole project. Links behind it are
    judged too, as the kernel meets them: those of a clone may have changed since the user made the link.
    """
    at, real, links = Path(path.absolute().anchor), str(resolved(path)), 0
    ahead = list(reversed(path.absolute().parts[1:]))
    while ahead:
        step = at.parent if (part := ahead.pop()) == ".." else at / part
        target = _target_of(step)
        if target is None or (links := links + 1) > MOST_LINKS:
            at = step
            continue
        project = _project_around(step)
        if project is not None and not is_inside(real, [project]):
            return project
        if target.is_absolute():
            at = Path(target.anchor)
        ahead.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))
    return None


def _target_of(path: Path) -> Path | None:
    """Return where a link leads, or None for anything else, such as a link that the user may not read."""
    try:
        return path.readlink()
    except (OSError, ValueError):  # ValueError: a NUL character
        return None


def contains_home(place: Path) -> bool:
    """Return True if the resolved folder is the home folder or one of its parents."""
    return resolved(expanded("~")).is_relative_to(place)


def _project_around(link: Path) -> Path | None:
    """Return the project that contains the link, or None.

    This is the work tree, unless git tracks no file of the nearest folder with configs/ or `.halfstep/`: a project may
    have been unpacked inside a larger repository of the user.
    """
    marks = ("configs", RECORDS_FOLDER)
    places = (place for place in link.parents if any(is_folder(place / mark) for mark in marks))
    marked = next((place for place in places if not contains_home(place)), None)
    repository = find_repository(link.parent)
    if repository is None or contains_home(tree := resolved(repository.work_tree)):
        return marked
    if marked is None or marked == tree or not marked.is_relative_to(tree):
        return tree
    inside = f"{marked.relative_to(tree).as_posix()}/"
    return tree if any(path.startswith(inside) for path in repository.tracked_paths()) else marked
