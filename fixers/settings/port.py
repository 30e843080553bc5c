"""port: launches that would use port 29500 use a free port instead.

What it does
    `accelerate launch` with several processes or with port 29500 gets `--main_process_port 0`. `main_process_port:
    29500` in its config becomes 0, and a rendezvous at `localhost:29500` becomes `localhost:0`. Accelerate and torchrun
    then use a free port that the system assigns. Launches over several machines are not changed: all machines must use
    the same port.

Why
    29500 is the common default. If a second job on the host, or a process left behind by a failed job, uses it, the
    launch fails with `address already in use` or `Tried to launch distributed communication on port 29500`.

Before
    accelerate launch --multi_gpu --num_processes 2 train.py
    torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:29500 train.py

After
    accelerate launch --main_process_port 0 --multi_gpu --num_processes 2 train.py
    torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0 train.py

What it can break
    An external tool that connects to port 29500 no longer finds the job there.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.settings.launch_text import LaunchText
from fixers.settings.port_forms import judge_config, judge_script
from fixers.sources.commands import read_commands, reads_commands
from fixers.sources.config_commands import commands_in_config
from fixers.sources.config_files import is_yaml, read_config
from fixers.sources.source import Source
from fixers.sources.unparsable import Unparsable

name = "port"
safety = "safe"
needles: tuple[bytes, ...] = (b"accelerate", b"29500", b"main_process_port")
below = None
requires: tuple[str, ...] = ()


def matches(path: str) -> bool:
    return reads_commands(path) or is_yaml(path)


def rewrite(source: Source, target: Target) -> Rewrite:
    """Return the edits that select a free port in every launch on a single machine."""
    try:
        if reads_commands(source.path):
            return judge_script(source.data, read_commands(source.path, source.data))
        documents = read_config(source.path, source.data)
        return judge_config(source.data, documents, commands_in_config(source.path, source.data))
    except Unparsable:
        return NOTHING


def rewrite_launch(launch: LaunchText, target: Target) -> Rewrite:
    """Return the edits that select a free port in the job's configured command."""
    return judge_script(launch.data, launch.script)
