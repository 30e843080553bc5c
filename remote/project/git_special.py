"""Find files for which git would wait: FIFOs and devices in place of the files of a repository, or named by its config.

git opens its configuration, refs and objects without looking at their kind, and waits for the writer of a FIFO. A
project that was unpacked from an archive may contain such files, or a configuration that names them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from remote.protocol.regular import read_regular

# git sets these variables while it runs a hook.
REDIRECTING = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_INDEX_FILE", "GIT_PREFIX"})
DEADLINE_S = 10
NO_MATCH = 1
NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP, errno.EINVAL, errno.ENXIO)
"""Errors of files that git cannot open or read either, without waiting."""
LIST = ("git", "--git-dir=/dev/null", "config", "--file", "-", "--no-includes", "--null", "--get-regexp")
"""List settings of stdin. Outside of a repository, git reads no other file of the project."""
INCLUDE_KEYS = r"^include(if\..*)?\.path$"
OPTIONAL = ":(optional)"
MOST_INCLUDES = 100
MOST_ENTRIES = 100_000
MOST_ALTERNATES = 20
LARGEST = 2**20
OF_KERNEL = ("/proc", "/sys")
WAITING = (stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK)
FANOUT = re.compile("[0-9a-f]{2}")
LOOSE = re.compile("[0-9a-f]{38}([0-9a-f]{24})?")


def own_environment() -> dict[str, str]:
    """Return the environment for git, without the variables with which it would read another repository."""
    return {name: value for name, value in os.environ.items() if name not in REDIRECTING}


def may_wait_for_settings(git_folder: Path, common_folder: Path) -> bool:
    """Return True if git might wait for a file while it reads the settings or the refs of the repository.

    Also returns True if too many files would have to be examined, or if one of them cannot be examined.
    """
    try:
        return _repository_waits(git_folder, common_folder)
    except OSError:  # for example, a folder that can be searched, but not listed
        return True


def _repository_waits(git_folder: Path, common_folder: Path) -> bool:
    folders = tuple(dict.fromkeys((git_folder, common_folder)))
    if any(_waits(entry) for folder in folders for entry in _entries(folder)):
        return True
    roots = (folder / name for folder in folders for name in ("refs", "reftable", "info"))
    if any(_tree_waits(root) for root in roots):
        return True
    return _configuration_waits(common_folder / "config", git_folder / "config.worktree")


def may_wait_for_objects(common_folder: Path) -> bool:
    """Return True if git might wait for a file while it reads objects. Alternate object folders are examined too."""
    waiting, seen = [common_folder / "objects"], set[Path]()
    while waiting:
        objects = waiting.pop()
        if objects in seen:
            continue
        seen.add(objects)
        try:
            alternates = _alternates(objects)
            if alternates is None or len(seen) > MOST_ALTERNATES or _objects_wait(objects):
                return True
        except OSError:
            return True
        waiting.extend(alternates)
    return False


def _objects_wait(objects: Path) -> bool:
    loose = (Path(folder.path) for folder in _entries(objects) if FANOUT.fullmatch(folder.name))
    return any(_tree_waits(objects / name) for name in ("info", "pack")) or any(
        LOOSE.fullmatch(entry.name) and _waits(entry) for folder in loose for entry in _entries(folder)
    )


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of the folder, if it exists. Raises OSError."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as listed:
        yield from listed


def _waits(entry: os.DirEntry[str]) -> bool:
    """Return True if reading the entry may take forever. Only links and special files need a system call."""
    if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
        return False
    return _path_waits(Path(entry.path))


def _path_waits(path: Path) -> bool:
    """Return True for a FIFO, a device except /dev/null, and files of the kernel, which may wait for its events."""
    try:
        status, real = path.stat(), path.resolve()
    except (OSError, ValueError, RuntimeError):
        return False
    special = stat.S_IFMT(status.st_mode) in WAITING and status.st_rdev != Path(os.devnull).stat().st_rdev
    return special or any(real.is_relative_to(folder) for folder in OF_KERNEL)


def _tree_waits(root: Path) -> bool:
    """Return True if a file below `root` waits, or if the tree has links to folders or more than MOST_ENTRIES entries.

    `root` itself may be a link, as in a second work tree of an old version of git.
    """
    waiting, count = [str(root)], 0
    while waiting:
        for entry in _entries(Path(waiting.pop())):
            count += 1
            if count > MOST_ENTRIES or _waits(entry) or (entry.is_symlink() and entry.is_dir()):
                return True
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
    return False


def _alternates(objects: Path) -> list[Path] | None:
    """Return the alternates of an object folder, or None if they are unknown. Raises OSError."""
    try:
        lines = read_regular(objects / "info" / "alternates", LARGEST, follow=True).split(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return []
    if any(line.startswith(b'"') or b"\0" in line for line in lines):  # quoted as in C
        return None
    return [objects / os.fsdecode(line) for line in lines if line and not line.startswith(b"#")]


def _configuration_waits(*files: Path) -> bool:
    """Return True if one of the configuration files, or a file that it includes, waits or cannot be examined.

    An inclusion is counted each time, because git reads the file each time.
    """
    waiting, known, count = list(files), dict[Path, list[Path] | None](), 0
    while waiting:
        file = waiting.pop()
        if file not in known:
            known[file] = _included_by(file)
        included, count = known[file], count + 1
        if included is None or count > MOST_INCLUDES:
            return True
        waiting.extend(included)
    return False


def _included_by(file: Path) -> list[Path] | None:
    """Return the files that a configuration file includes under any condition, or None if this is unknown."""
    try:
        if _path_waits(file):
            return None
        data = read_regular(file, LARGEST, follow=True)
    except (OSError, ValueError) as error:
        return [] if isinstance(error, OSError) and error.errno in NOTHING else None
    if b"include" not in data.lower():
        return []
    argv, environment = [*LIST, INCLUDE_KEYS], own_environment()
    try:
        done = subprocess.run(
            argv, input=data, capture_output=True, check=False, timeout=DEADLINE_S, cwd="/", env=environment
        )
    except FileNotFoundError:  # without git, nothing waits
        return []
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode not in (0, NO_MATCH):
        return None
    values = (item.partition("\n")[2] for item in os.fsdecode(done.stdout).split("\0"))
    return _resolved([value.removeprefix(OPTIONAL) for value in values if value], file)


def _resolved(values: list[str], file: Path) -> list[Path] | None:
    """Return the paths as git resolves them, or None for a path that depends on the installation of git."""
    if any(value.startswith("%(") for value in values):
        return None
    try:
        return [file.parent / Path(value).expanduser() for value in values]
    except RuntimeError:  # an unknown account: git fails as well
        return None
