"""The Python processes of a command under proof: whether the hooks run in each, whether it loaded torch, why not."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from remote.payload.processes.identity import Process, read_command, read_environment

NOTE = re.compile(r"python-\d+\.json")
TORCH_LIBRARY = b"/libtorch"
CUSTOMIZE_HIDDEN = "sitecustomize"
PATH_REPLACED = "PYTHONPATH"
LOOK_EVERY_S = 0.25
BLIND_AFTER_S = 60.0


@dataclass(frozen=True)
class Python:
    """One process. `why`: what kept the hooks out: the flag, PATH_REPLACED, CUSTOMIZE_HIDDEN, or "" where unknown.

    `fault` is the traceback of hooks that could not be put into torch.
    """

    pid: int
    command: str
    torch: bool = False
    hooked: bool = False
    why: str = ""
    fault: str = ""


class Pythons:
    """What is known of them while the command runs; `hooks` and `reports` are the proof's folders."""

    def __init__(self, hooks: str, reports: str) -> None:
        self._hooks = hooks
        self._reports = reports
        self._seen: Dict[int, Python] = {}
        self._looked = float("-inf")
        self._blind_since: Optional[float] = None

    def look(self, processes: Callable[[], Iterable[Process]], now: float) -> None:
        """The living ones are known as /proc shows them, some times a second; where there is no /proc, none is."""
        if now - self._looked < LOOK_EVERY_S:
            return
        self._looked = now
        for process in processes():
            self._look_at(process.pid)
        blind = any(one.torch for one in self._seen.values()) and not read_notes(self._reports)
        self._blind_since = (now if self._blind_since is None else self._blind_since) if blind else None

    def see_nothing(self, now: float) -> bool:
        """Torch was loaded long ago, and no process at all has the hooks: there is nothing to wait for."""
        return self._blind_since is not None and now - self._blind_since > BLIND_AFTER_S

    def known(self) -> Tuple[Python, ...]:
        """Every process once: what its own note says, and what was seen of those that wrote none."""
        seen, notes = self._seen, read_notes(self._reports)
        hooked = {pid: replace(note, torch=note.torch or seen.get(pid, note).torch) for pid, note in notes.items()}
        return tuple({**seen, **hooked}.values())

    def _look_at(self, pid: int) -> None:
        executable = _executable(pid)
        if executable and not executable.startswith("python"):
            # What starts the command is Python itself, until it becomes the command.
            self._seen.pop(pid, None)
        if not executable.startswith("python"):
            return
        words = [os.fsdecode(word) for word in read_command(pid).split(b"\0")[:-1]]
        before = self._seen.get(pid)
        torch = (before is not None and before.torch) or _loaded_torch(pid)
        why = why_without(words, read_environment(pid), self._hooks)
        self._seen[pid] = Python(pid, " ".join(words), torch, why=why)


def read_notes(folder: str) -> Dict[int, Python]:
    """By pid, what the hooks wrote down of the processes in which they run."""
    found = {}
    for name in sorted(name for name in os.listdir(folder) if NOTE.fullmatch(name)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            note: Dict[str, Any] = json.load(file)
        words = " ".join(note["command"])
        found[note["pid"]] = Python(note["pid"], words, note["torch"], hooked=True, fault=note.get("fault", ""))
    return found


def why_without(words: Sequence[str], environment: Sequence[bytes], hooks: str) -> str:
    """What keeps the hooks out of a process with this command line and this environment."""
    flag = isolating_flag(words)
    if flag:
        return flag
    paths = [value[len(b"PYTHONPATH=") :] for value in environment if value.startswith(b"PYTHONPATH=")]
    folders = os.fsdecode(paths[0]).split(os.pathsep) if paths else []
    if environment and hooks not in folders:
        return PATH_REPLACED
    return CUSTOMIZE_HIDDEN if folders and folders[0] != hooks else ""


def isolating_flag(words: Sequence[str]) -> str:
    """The first of Python's own flags -I, -E and -S in this command line; python(1) allows them joined: -IB."""
    rest: List[str] = list(words[1:])
    while rest and rest[0].startswith("-") and not rest[0].startswith("--") and rest[0] != "-":
        letters = rest.pop(0)[1:]
        for at, letter in enumerate(letters):
            if letter in "IES":
                return f"-{letter}"
            if letter in "cm":
                return ""
            if letter in "WX":
                # Its argument follows in the same word, or is the next one.
                rest = rest if letters[at + 1 :] else rest[1:]
                break
    return ""


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
