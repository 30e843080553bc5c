"""Python processes without the hooks: why the hooks are missing, and which of them exchange unsigned objects.

The hooks sign what the training processes send each other. Without the hooks, another user of the host could connect to
the ports of these processes and run code in them.
"""

from __future__ import annotations

import os
from typing import Dict, Iterable, Mapping, NamedTuple, Optional

from remote.payload.processes.identity import Process, read_environment
from remote.payload.proof.pythons import (
    CUSTOMIZE_HIDDEN,
    OUT_OF_SIGHT,
    PATH_REPLACED,
    TITLED,
    VARIABLES_REMOVED,
    Python,
    inspect_python,
    is_one_of_several,
    read_arguments,
    why_unhooked,
)

UNSIGNED = "unsigned-processes"
"""The check that no process of a training with several processes runs without the hooks."""
KEY = "HALFSTEP_KEY_FILE"
LONGEST_COMMAND = 80


class Reason(NamedTuple):
    """Message and hint of a finding."""

    message: str
    hint: str


_REASONS: Dict[str, Reason] = {
    PATH_REPLACED: Reason(
        "PYTHONPATH was set without its earlier value",
        "keep the earlier value where you set it: export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}",
    ),
    VARIABLES_REMOVED: Reason(
        "the variables HALFSTEP_* of the job were removed from its environment",
        "pass the whole environment on: start it without `env -i` and `sudo`, and let srun export all variables",
    ),
    OUT_OF_SIGHT: Reason(
        "it runs in a container that does not contain the folder of the hooks",
        "mount halfstep's folder on the host in the container, for example apptainer exec --bind, or use `container:`"
        " of the host file",
    ),
    TITLED: Reason(
        "it has set its process title, which hides its variables, and PYTHONPATH was replaced or HALFSTEP_* removed",
        "keep the earlier value where you set it: export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}",
    ),
    CUSTOMIZE_HIDDEN: Reason(
        "another sitecustomize.py comes first on PYTHONPATH",
        'append your folders to the existing value: PYTHONPATH="$PYTHONPATH:src"',
    ),
}


def has_key(configured: Mapping[str, str]) -> bool:
    """Return True unless the variables of the config switch off the signatures."""
    return configured.get(KEY) != ""


def reason_of(why: str) -> Reason:
    """Return the reason in words. `why` is explained in `Python`, and must not be ""."""
    if why.startswith("-"):
        return Reason(f"python {why} ignores PYTHONPATH", f"start python without {why}")
    return _REASONS[why]


def shown(python: Python) -> str:
    """Return the command of a process for a message, between backticks.

    In a long command, folders are left out, so that the names of interpreter and script remain. The id of the process
    follows a command of which a part is missing.
    """
    command = python.command
    if len(command) <= LONGEST_COMMAND:
        return f"`{command}`"
    names = " ".join(os.path.basename(word) if word.startswith("/") else word for word in command.split(" "))
    part = names if len(names) <= LONGEST_COMMAND else f"{names[: LONGEST_COMMAND - 3]}..."
    return f"`{part}` (process {python.pid})"


def judge_unsigned(pythons: Iterable[Python]) -> Optional[Reason]:
    """Return the reason to end the training if one of several processes runs without the hooks, or None."""
    python = next((one for one in pythons if one.is_unsigned), None)
    if python is None:
        return None
    message, hint = reason_of(python.why)
    return Reason(
        f"{shown(python)} is one of several processes of a training, and runs without the hooks, which sign what the"
        f" processes send each other, so another user of this host could run code under your account: {message}",
        hint,
    )


def find_unsigned(processes: Iterable[Process], hooks: str) -> Optional[Reason]:
    """Return the reason to end a job with these processes, or None. `hooks` is the folder of the job's hooks.

    Another sitecustomize.py does not end the job: only a proof can see whether the hooks run nevertheless.
    """
    inspected = (inspect_python(process.pid, hooks) for process in processes if _lacks_hooks(process.pid, hooks))
    return judge_unsigned(one for one in inspected if one is not None)


def _lacks_hooks(pid: int, hooks: str) -> bool:
    arguments, environment = read_arguments(pid), read_environment(pid)
    several = is_one_of_several(arguments, environment)
    return several and why_unhooked(arguments, environment, hooks, pid) not in ("", CUSTOMIZE_HIDDEN)
