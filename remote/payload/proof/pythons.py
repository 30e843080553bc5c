"""The Python processes of a proved command: whether the hooks run in each process, and whether it loaded torch."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import replace
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from remote.payload.processes.identity import Process, read_command, read_environment
from remote.payload.proof.hooks.report import ProcessNote
from remote.protocol.dataclass import dataclass
from remote.protocol.launchers import isolating_flag, unpickles_state
from remote.protocol.values import decode

NOTE = re.compile(r"python-\d+\.json")
TORCH_LIBRARY = b"/libtorch"
WORLD = b"WORLD_SIZE="
CUSTOMIZE_HIDDEN = "sitecustomize"
PATH_REPLACED = "PYTHONPATH"
VARIABLES_REMOVED = "HALFSTEP"
OUT_OF_SIGHT = "container"
TITLED = "title"
VARIABLES = ((b"HALFSTEP_KEY_FILE=",), (b"HALFSTEP_WATCH=", b"HALFSTEP_PROOF="))
"""The variables without which the hooks do nothing: one of each group."""
LOOK_EVERY_S = 0.25
MOST_PARTS = 1000
UNHOOKED_AFTER_S = 60.0


@dataclass(frozen=True)
class Python:
    """One process. `why` explains missing hooks: a flag, one of the words above, or "" if unknown.

    `fault` is the traceback if the hooks could not be installed. `several` is True for one of several training
    processes, and for a torchrun that keeps its state in a store. `titled` is True if the process has overwritten its
    environment in /proc, as setproctitle does, so that neither its variables nor its number of processes are known.
    """

    pid: int
    command: str
    torch: bool = False
    hooked: bool = False
    why: str = ""
    fault: str = ""
    several: bool = False
    titled: bool = False

    @property
    def is_unsigned(self) -> bool:
        """True if what the process sends to the others is unsigned, because the hooks do not run in it."""
        return self.torch and self.several and not self.hooked and self.why != ""


class Pythons:
    """Tracks the processes while the command runs. `hooks` and `reports` are the proof's folders."""

    def __init__(self, hooks: str, reports: str) -> None:
        self._hooks = hooks
        self._reports = reports
        self._processes: Dict[int, Python] = {}
        self._looked = float("-inf")
        self.saw_unsigned = False
        self._unhooked_since: Optional[float] = None

    def look(self, processes: Callable[[], Iterable[Process]], now: float) -> None:
        """Inspect the running processes in /proc, if it exists, at most every LOOK_EVERY_S seconds."""
        if now - self._looked < LOOK_EVERY_S:
            return
        self._looked = now
        for process in processes():
            self._inspect(process.pid)
        self.saw_unsigned = any(one.is_unsigned for one in self.processes())
        unhooked = any(one.torch for one in self._processes.values()) and not read_notes(self._reports)
        if not unhooked:
            self._unhooked_since = None
        elif self._unhooked_since is None:
            self._unhooked_since = now

    def is_unhooked(self, now: float) -> bool:
        """Return True if a process loaded torch more than UNHOOKED_AFTER_S seconds ago, and none has the hooks."""
        return self._unhooked_since is not None and now - self._unhooked_since > UNHOOKED_AFTER_S

    def processes(self) -> Tuple[Python, ...]:
        """Return every process once, from the note that it wrote, or from /proc if it wrote no note."""
        inspected, notes = self._processes, read_notes(self._reports)
        hooked = {pid: replace(note, torch=note.torch or inspected.get(pid, note).torch) for pid, note in notes.items()}
        return _with_titled({**inspected, **hooked}.values())

    def _inspect(self, pid: int) -> None:
        before = self._processes.get(pid)
        inspected = inspect_python(pid, self._hooks, torch=before is not None and before.torch)
        if inspected is not None:
            self._processes[pid] = inspected
        elif _executable(pid):
            # The process that starts the command is a Python process until it calls exec.
            self._processes.pop(pid, None)


def inspect_python(pid: int, hooks: str, *, torch: bool = False) -> Optional[Python]:
    """Return what /proc shows of a process, or None if it is not a Python process or has ended.

    `torch` is True if the process is known to have loaded torch.
    """
    arguments, environment = read_arguments(pid), read_environment(pid)
    foreign = _is_of_another_user(pid)
    program = os.path.basename(arguments[0]) if foreign and arguments else _executable(pid)
    if not program.startswith("python"):
        return None
    why, several = why_unhooked(arguments, environment, hooks, pid), is_one_of_several(arguments, environment)
    titled = any(environment) and not any(b"=" in value for value in environment)
    # What a process of another user, as below `sudo`, has loaded cannot be read.
    loaded = torch or foreign or _loaded_torch(pid)
    return Python(pid, " ".join(arguments), loaded, why=why, several=several, titled=titled)


def _with_titled(pythons: Iterable[Python]) -> Tuple[Python, ...]:
    """Return the processes. If several of them with torch, but without hooks, have a title, they are a training."""
    every = tuple(pythons)
    titled = [one.pid for one in every if one.titled and one.torch and not one.hooked]
    if len(titled) < 2:
        return every
    return tuple(replace(one, several=True, why=TITLED) if one.pid in titled else one for one in every)


def read_arguments(pid: int) -> List[str]:
    """Return the command line of a process, or [] if it cannot be read."""
    return [os.fsdecode(word) for word in read_command(pid).split(b"\0")[:-1]]


def is_one_of_several(arguments: Sequence[str], environment: Sequence[bytes]) -> bool:
    """Return True for one of several training processes, and for a torchrun that unpickles the state in its store."""
    counts = [value[len(WORLD) :] for value in environment if value.startswith(WORLD)]
    if counts and counts[0].isdigit() and counts[0] not in (b"0", b"1"):
        return True
    return unpickles_state(arguments)


def read_notes(folder: str) -> Dict[int, Python]:
    """Return the processes in which the hooks run, by pid."""
    pythons = {}
    for name in sorted(name for name in os.listdir(folder) if NOTE.fullmatch(name)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            note = decode(ProcessNote, json.load(file))
        pythons[note.pid] = Python(note.pid, " ".join(note.command), note.torch, hooked=True, fault=note.fault)
    return pythons


def why_unhooked(arguments: Sequence[str], environment: Sequence[bytes], hooks: str, pid: int = 0) -> str:
    """Return why the hooks do not run in a process with this command line and environment, or "" if unknown.

    With `pid`, a process that does not see the folder of the hooks, as in a container, is recognised too.
    """
    flag = isolating_flag(arguments)
    if flag:
        return flag
    if pid and _is_of_another_user(pid):
        return VARIABLES_REMOVED
    why = _why_in(environment, hooks)
    return OUT_OF_SIGHT if pid and why in ("", CUSTOMIZE_HIDDEN) and not _sees(pid, hooks) else why


def _why_in(environment: Sequence[bytes], hooks: str) -> str:
    paths = [value[len(b"PYTHONPATH=") :] for value in environment if value.startswith(b"PYTHONPATH=")]
    folders = os.fsdecode(paths[0]).split(os.pathsep) if paths else []
    if environment and hooks not in folders:
        return PATH_REPLACED
    if environment and not all(any(each.startswith(names) for each in environment) for names in VARIABLES):
        return VARIABLES_REMOVED
    return CUSTOMIZE_HIDDEN if folders and folders[0] != hooks else ""


def _sees(pid: int, folder: str) -> bool:
    """Return False if the folder does not exist in the process's view of the file system."""
    try:
        return _exists_below(f"/proc/{pid}/root", folder) or not os.path.isdir(f"/proc/{pid}")
    except OSError:
        return True


def _exists_below(root: str, path: str) -> bool:
    """Return True if the path exists for a process with this root folder. Absolute links begin at this root, too."""
    place, waiting = "", path.split("/")[::-1]
    for _ in range(MOST_PARTS):
        if not waiting:
            return True
        name = waiting.pop()
        if name in ("", "."):
            continue
        below = os.path.dirname(place) if name == ".." else f"{place}/{name}"
        try:
            mode = os.lstat(root + below).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        if stat.S_ISLNK(mode):
            target = os.readlink(root + below)
            waiting += target.split("/")[::-1]
            below = "" if target.startswith("/") else place
        place = below
    return False


def _is_of_another_user(pid: int) -> bool:
    try:
        return os.geteuid() not in (0, os.stat(f"/proc/{pid}").st_uid)
    except OSError:
        return False


def _executable(pid: int) -> str:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def _loaded_torch(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            return TORCH_LIBRARY in file.read()
    except OSError:
        return False
