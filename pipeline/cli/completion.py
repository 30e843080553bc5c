"""`pipeline --install-completion`: the completion script, in the folder where the user's shell looks for it."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from remote.errors import BadUsage

COMPLETE = "_PIPELINE_COMPLETE"
"""The environment variable by which a shell asks click for completions."""
SCRIPT_PATHS = {
    "bash": ".local/share/bash-completion/completions/pipeline",
    "zsh": ".zfunc/_pipeline",
    "fish": ".config/fish/completions/pipeline.fish",
}
"""Under the home folder; bash needs the package bash-completion to look there."""
NEXT_STEPS = {
    "bash": "open a new shell",
    "zsh": "add `fpath+=~/.zfunc; autoload -Uz compinit; compinit` to ~/.zshrc and open a new shell",
    "fish": "open a new shell",
}


def install_completion(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    """Writes the script for the shell that $SHELL names, and exits. Raises BadUsage for any other shell."""
    del parameter
    if not wanted or context.resilient_parsing:
        return
    shell = Path(os.environ.get("SHELL", "")).name
    kind = get_completion_class(shell)
    if kind is None or shell not in SCRIPT_PATHS:
        raise BadUsage(
            f"no completion for the shell {shell or '(SHELL is not set)'}: bash, zsh and fish have one",
            hint="SHELL=bash pipeline --install-completion",
        )
    path = Path.home() / SCRIPT_PATHS[shell]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(kind(context.command, {}, "pipeline", COMPLETE).source(), "utf-8")
    click.echo(f"wrote {path}; {NEXT_STEPS[shell]}")
    context.exit(0)
