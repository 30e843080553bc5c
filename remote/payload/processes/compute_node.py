"""Run a command on a compute node of Slurm, in an allocation of its own that ends with the command."""

from __future__ import annotations

import math
from typing import List, Sequence

MARGIN_S = 120.0
"""For the start of the command on the node and for its end."""


def srun_argv(options: Sequence[str], limit_s: float) -> List[str]:
    """Return the words before a command that run it on a compute node, for `limit_s` seconds at most.

    The streams are those of the command. If the command waits in the queue, srun does.
    """
    minutes = math.ceil((limit_s + MARGIN_S) / 60)
    return ["srun", "--job-name=halfstep-proof", "--ntasks=1", "--unbuffered", *options, f"--time={minutes}"]
