"""launch-flags: scripts, Makefiles, Dockerfiles, notebook cells and configured commands start training in float16.

What it does
    On a card below compute capability 8.0, `--bf16` becomes `--fp16`, `--tf32 True` becomes `--tf32 False`, and
    FlashAttention becomes `sdpa`. Values of precision options and of `ACCELERATE_MIXED_PRECISION` become float16.
    Variables such as `ATTN_IMPLEMENTATION` and `USE_FLASH_ATTN` change too, in scripts, `.env` files, Makefiles and the
    `ENV` of a Dockerfile. If both `--bf16` and `--fp16` have values, `--bf16` is set to false and `--fp16` to true. If
    the value of a precision option is a variable, the assignment of the variable is edited. A command that gives a TRL
    script a dtype, and neither `--bf16` nor `--fp16`, gets `--fp16 True`, because TRL computes in bfloat16 by default.

    Only arguments, assignments and configs written by a heredoc are edited. Comments, printed strings, paths,
    comparisons, commands such as echo or grep, and commands of inference servers are never edited. The script that
    the command starts determines the new spelling of a value. If the script accepts no float16, the value is not
    changed, and a warning names the line.

Why
    A command-line flag overrides the default in the script: with `--bf16 True`, Trainer uses bfloat16 even if the
    script was fixed, and `--tf32 True` fails with `--tf32 requires Ampere or a newer GPU arch`.

Before
    accelerate launch --mixed_precision bf16 train.py --bf16 True --attn_implementation flash_attention_2

After
    accelerate launch --mixed_precision fp16 train.py --fp16 True --attn_implementation sdpa

What it can break
    A program outside the project that accepts `--bf16` but not `--fp16` rejects the flag. Scripts of the project that
    declare their options with argparse, click or typer get `--fp16` from bf16-to-fp16.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import re
from posixpath import basename

from fixers.frame.findings import warning
from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.settings.config_forms import Settings
from fixers.settings.edit_list import EditList
from fixers.settings.launch_forms import Launch
from fixers.settings.launch_text import LaunchText
from fixers.settings.precision_words import NEEDLES
from fixers.sources.commands import read_commands, reads_commands
from fixers.sources.config_commands import commands_in_config
from fixers.sources.config_files import read_config, reads_config
from fixers.sources.heredocs import WRITERS, is_python_heredoc
from fixers.sources.notebook_commands import commands_in_notebook, is_notebook
from fixers.sources.shell_words import scan_shell
from fixers.sources.shells import SHELLS
from fixers.sources.source import Source
from fixers.sources.unparsable import Unparsable
from fixers.sources.words import Heredoc, Script
from remote.policy.precision import BF16_FROM

name = "launch-flags"
safety = "safe"
needles = NEEDLES
below = BF16_FROM
requires: tuple[str, ...] = ()


PRECISION_WORDS = re.compile(rb"bf16|bfloat16")
HEREDOC_WORDS = re.compile(rb"bf16|bfloat16|flash_att(?:entio)?n(?:_[23])?")
READS_COMMANDS = SHELLS | {"sbatch", "srun", "ssh"}


def matches(path: str) -> bool:
    return reads_commands(path) or reads_config(path) or is_notebook(path)


def rewrite(source: Source, target: Target) -> Rewrite:
    """Return the edits that select float16 in every command of the file."""
    if is_notebook(source.path):
        return _rewrite_notebook(source)
    try:
        script = _commands(source)
    except Unparsable as error:
        return _warn_unparsable(source, error) if reads_commands(source.path) else NOTHING
    return _rewrite_script(EditList(source.path, source.data, name), script, target)


def rewrite_launch(launch: LaunchText, target: Target) -> Rewrite:
    """Return the edits that select float16 in the job's configured command and environment."""
    return _rewrite_script(EditList("command", launch.data, name), launch.script, target)


def _rewrite_script(edit_list: EditList, script: Script, target: Target) -> Rewrite:
    launch = Launch(edit_list, target.code_facts)
    launch.read(script)
    for heredoc in script.heredocs:
        _read_heredoc(launch, heredoc)
    return edit_list.rewrite


def _rewrite_notebook(source: Source) -> Rewrite:
    launch = Launch(EditList(source.path, source.data, name))
    try:
        script, unparsed = commands_in_notebook(source.data)
    except Unparsable:
        return NOTHING
    launch.read(script)
    for start in unparsed:
        if word := PRECISION_WORDS.search(source.data, start, source.data.find(b"\n", start)):
            launch.edit_list.warn(
                word.start(), f"a command in a cell contains {word[0].decode()} and could not be parsed"
            )
    return launch.edit_list.rewrite


def _read_heredoc(launch: Launch, heredoc: Heredoc) -> None:
    """Judge a heredoc as settings if it writes a config file, or as commands if a shell reads it. Otherwise warn.

    Python heredocs are skipped: the Python fixers edit them.
    """
    body = launch.data[heredoc.start : heredoc.stop]
    try:
        if basename(heredoc.program) in READS_COMMANDS:
            launch.read(scan_shell(launch.data, heredoc.start, heredoc.stop))
            return
        if heredoc.program in WRITERS and reads_config(heredoc.target):
            settings = Settings(launch.edit_list.part(heredoc.start, heredoc.stop))
            for document in read_config(heredoc.target, body):
                settings.read(document)
            launch.edit_list.take(settings.edit_list, heredoc.start)
            return
        if heredoc.program in WRITERS and reads_commands(heredoc.target):
            part = Launch(launch.edit_list.part(heredoc.start, heredoc.stop))
            part.read(read_commands(heredoc.target, body))
            launch.edit_list.take(part.edit_list, heredoc.start)
            return
    except Unparsable:
        pass
    word = None if is_python_heredoc(launch.data, heredoc) else HEREDOC_WORDS.search(body)
    if word:
        selected = "FlashAttention" if word[0].startswith(b"flash") else "bfloat16"
        message = f"a heredoc selects {selected}; its purpose is unknown, so it was left unchanged"
        launch.edit_list.warn(heredoc.start + word.start(), message)


def _commands(source: Source) -> Script:
    if reads_commands(source.path):
        return read_commands(source.path, source.data)
    return commands_in_config(source.path, source.data)


def _warn_unparsable(source: Source, error: Unparsable) -> Rewrite:
    message = f"could not be read as a script ({error.message}); left unchanged"
    return Rewrite(findings=(warning(name, message, f"{source.path}:{error.line}", "check its flags by hand"),))
