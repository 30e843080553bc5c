"""Run a command on a compute node of Slurm, in its own allocation that ends with the command."""

from __future__ import annotations

import math
from typing import List, Sequence

MARGIN_S = 120.0
"""Extra time for starting and ending the command on the node."""


def srun_argv(options: Sequence[str], limit_s: float) -> List[str]:
    """Return the srun arguments to put before a command.

    Slurm's time limit is `limit_s` plus a margin, in whole minutes. srun forwards stdin, stdout and stderr. srun ends
    when the command has left Slurm's queue.
    """
    minutes = math.ceil((limit_s + MARGIN_S) / 60)
    return ["srun", "--job-name=halfstep-proof", "--ntasks=1", "--unbuffered", *options, f"--time={minutes}"]
