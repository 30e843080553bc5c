"""Links of a project that lead out of it: the project chose where they lead, even if the user typed their path."""

from __future__ import annotations

from pathlib import Path

from remote.project.paths import expanded, is_folder, resolved
from remote.project.real_paths import is_inside
from remote.project.records_folder import RECORDS_FOLDER
from remote.project.repository import find_repository


def project_left(path: Path) -> Path | None:
    """Return the project out of which a link in the path leads, or None if no project chose the place.

    A project is a git work tree, or a folder with configs/ or `.halfstep/`. A folder that contains the home folder is
    never one. A link that is in no project is the user's own, such as the link to a whole project.
    """
    whole, at = path.absolute(), Path(path.absolute().anchor)
    real = str(resolved(whole))
    for part in whole.parts[1:]:
        step = at.parent if part == ".." else at / part
        if not step.is_symlink():
            at = step
            continue
        project = _project_around(step)
        if project is not None and not is_inside(real, [project]):
            return project
        at = resolved(step)
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
