"""Run the payload on a compute node of Slurm, in an allocation of its own that ends with the command."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
from typing import Iterator, NamedTuple, Optional, Sequence, Tuple

from remote.payload.files.leftovers import owned_folder
from remote.payload.request.call import Call
from remote.protocol.layout import PAYLOAD, ProjectLayout

MARGIN_S = 120.0
"""Extra time for starting and ending the command on the node."""


class Place(NamedTuple):
    """Where the payload's verbs run: the payload's path there, and the command prefix that leads there."""

    payload: str
    launcher: Tuple[str, ...] = ()


@contextlib.contextmanager
def place_of(call: Call, layout: ProjectLayout, slurm: Optional[Sequence[str]], limit_s: float) -> Iterator[Place]:
    """Yield this machine, or a compute node if `slurm` contains srun options.

    A command that changes nothing on the host keeps its payload in this machine's memory. Compute nodes share only the
    workdir with this machine, so they get a copy there, which is removed afterwards.
    """
    if slurm is None:
        yield Place(call.payload)
        return
    launcher = srun_argv(slurm, limit_s)
    if os.path.dirname(call.payload) == os.path.join(call.workdir, PAYLOAD):
        yield Place(call.payload, launcher)
        return
    with owned_folder(call.workdir, layout, "payload") as folder:
        yield Place(shutil.copyfile(call.payload, os.path.join(folder, "payload.pyz")), launcher)


def srun_argv(options: Sequence[str], limit_s: float) -> Tuple[str, ...]:
    """Return the srun arguments to put before a command.

    Slurm's time limit is `limit_s` plus a margin, in whole minutes. srun forwards stdin, stdout and stderr. srun ends
    when the command has left Slurm's queue.
    """
    minutes = math.ceil((limit_s + MARGIN_S) / 60)
    return ("srun", "--job-name=halfstep-proof", "--ntasks=1", "--unbuffered", *options, f"--time={minutes}")
