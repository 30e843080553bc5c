"""`pipeline --install-completion`: write the completion script to the folder that the user's shell reads."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from remote.errors import BadUsage
from remote.project.user_folder import create_private, home

COMPLETE = "_PIPELINE_COMPLETE"
"""The environment variable that a shell's completion script sets when it calls the program."""
COMMANDS = ("pipeline", "halfstep")
SCRIPT_PATHS = {
    "bash": ".local/share/bash-completion/completions/{}",
    "zsh": ".zfunc/_{}",
    "fish": ".config/fish/completions/{}.fish",
}
"""The paths of the completion scripts in the home folder. bash reads the script only with bash-completion."""
NEXT_STEPS = {
    "bash": "open a new shell",
    "zsh": "add `fpath+=~/.zfunc; autoload -Uz compinit; compinit` to ~/.zshrc and open a new shell",
    "fish": "open a new shell",
}
COMPADD = "compadd -U -V unsorted -a completions"
NO_SPACE = {
    "    return 0\n": "    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n\n    return 0\n",
    COMPADD: 'compadd -U -V unsorted -q -S "${${completions[1]:#*=}:+ }" -a completions',
}
"""Replacements for lines in click's completion scripts for bash and zsh."""


def install_completion(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    """Write the script for the shell in $SHELL, and exit. Raises BadUsage for an unsupported shell."""
    del parameter
    if not wanted or context.resilient_parsing:
        return
    shell = Path(os.environ.get("SHELL", "")).name
    kind = get_completion_class(shell)
    if kind is None or shell not in SCRIPT_PATHS:
        raise BadUsage(
            f"no completion for the shell {shell or '(SHELL is not set)'}; supported are bash, zsh and fish",
            hint="SHELL=bash pipeline --install-completion",
        )
    for name in COMMANDS:
        path = home(os.environ) / SCRIPT_PATHS[shell].format(name)
        create_private(path.parent)
        path.write_text(without_space(kind(context.command, {}, name, COMPLETE).source()), "utf-8")
        click.echo(f"wrote {path}")
    click.echo(NEXT_STEPS[shell])
    context.exit(0)


def without_space(script: str) -> str:
    """Return click's script, changed so that no space follows a completed `KEY=`. fish needs no change."""
    for line, replacement in NO_SPACE.items():
        script = script.replace(line, replacement, 1)
    return script
