"""The folder in memory for the secret and shared files of a job. Other users can neither read nor replace it."""

from __future__ import annotations

import os
import stat


def secret_folder() -> str:
    """Return a folder in memory that only this user can read, or "" if no such folder can be created."""
    runtime = _runtime_folder(os.environ.get("XDG_RUNTIME_DIR", ""))
    return (runtime and _private(os.path.join(runtime, "halfstep"))) or _shared_memory()


def _runtime_folder(named: str) -> str:
    """Return the folder that $XDG_RUNTIME_DIR names, or "" if another user can enter it or replace it.

    The XDG specification requires the user's own folder with mode 0700. A start-up file may name a folder in /tmp that
    another user created first, and `sudo -E` keeps the variable of the other account.
    """
    above, name = os.path.split(named.rstrip("/"))
    if not os.path.isabs(above):
        return ""
    at = above = os.path.realpath(above)
    while _is_guarded(at) and at != os.path.dirname(at):
        at = os.path.dirname(at)
    runtime = os.path.join(above, name)
    return runtime if _is_guarded(at) and _is_private(runtime) else ""


def _is_guarded(folder: str) -> bool:
    """Return True if no other user except root can rename this user's entries of the folder."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid in (0, os.getuid())
    return is_own and (not status.st_mode & 0o022 or bool(status.st_mode & stat.S_ISVTX))


def _shared_memory(root: str = "/dev/shm") -> str:
    """Return a private folder in `root`, or "" if it cannot be created.

    Every user can write to `root`, so another user may have created a folder of the usual name; in that case, a random
    suffix is appended.
    """
    usual = os.path.join(root, f"hs-{os.getuid()}")
    if _private(usual):
        return usual
    try:
        others = sorted(name for name in os.listdir(root) if name.startswith(f"hs-{os.getuid()}-"))
    except OSError:
        return ""
    kept = next((path for path in (os.path.join(root, name) for name in others) if _is_private(path)), "")
    return kept or _private(f"{usual}-{os.urandom(8).hex()}")


def _private(folder: str) -> str:
    """Create the folder if it is missing. Return its path, or "" if that fails or other users may enter the folder."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError:
        return ""
    return folder if _is_private(folder) else ""


def _is_private(folder: str) -> bool:
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return status.st_uid == os.getuid() and not status.st_mode & 0o077 and stat.S_ISDIR(status.st_mode)
