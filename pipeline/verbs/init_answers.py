"""Questions of `pipeline init` whose answers are checked. A wrong answer is explained, and the question asked again."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fixers.frame.disk_tree import DiskTree
from fixers.sources.shells import is_shell
from pipeline.config.batch_script import slurm_keys
from pipeline.config.draft import Guess
from pipeline.config.readme_commands import SETTINGS, Start
from pipeline.judgements.notebook_code import SAVE_AS_SCRIPT
from pipeline.show.prompts import Defaults, Questions
from pipeline.show.screen import Screen
from remote.errors import BadUsage
from remote.policy.cards import UnknownCard, parse_card
from remote.project.paths import exists, expanded, is_file
from remote.protocol.shell import command_line, shell_command
from remote.protocol.text import whole_number

ATTEMPTS = 3
MOST_PLACES = 4
NOTEBOOK = ".ipynb"


def _ask(question: str, judge: Callable[[str], str], screen: Screen, questions: Questions) -> str:
    """Return the judged answer. Ask up to ATTEMPTS times while `judge` raises BadUsage and somebody is at a terminal.

    Raises BadUsage for the last wrong answer.
    """
    attempts = ATTEMPTS if screen.can_confirm() and not isinstance(questions, Defaults) else 1
    for _ in range(attempts - 1):
        try:
            return judge(questions.ask(question))
        except BadUsage as error:
            screen.note(str(error))
    return judge(questions.ask(question))


def choose_script(
    guess: Guess, given: str, data: str, cwd: Path, screen: Screen, questions: Questions, typed: Sequence[str] = ()
) -> str:
    """Return the training script: the given script, the only candidate, or the user's choice, or "" for none.

    `typed` are the other words of the command line, for hints.
    """
    if given:
        if not is_file(cwd / given):
            raise BadUsage(f"{given} does not exist in {cwd}", where="--script")
        if given.lower().endswith(NOTEBOOK):
            raise BadUsage(
                f"{given} is a notebook, which python cannot run",
                where="--script",
                hint=f"{SAVE_AS_SCRIPT}, then name the script",
            )
        if given.endswith(SETTINGS) and not guess.command_of(given, named=True):
            raise BadUsage(
                f"{given} is a settings file, which python cannot run",
                where="--script",
                hint="name the Python or shell script that reads the file; for an installed program, write a config "
                f'with its whole command, as in command: ["PROGRAM", "train", "{given}"]',
            )
        if given in guess.interactive:
            screen.note(f"{given} waits for keyboard input, which a job on a host never gets")
        return given
    if not (guess.scripts or guess.interactive):
        if guess.sources and not data:
            _without_script(screen, questions, typed)
        elif not data:
            screen.note("no training script was found: this config is the demo (built-in trainer, tiny model and data)")
            screen.note("for your own: --script PATH, or --data FOLDER for the built-in trainer")
        return ""
    if len(guess.scripts) == 1:
        screen.note(f"training script: {guess.scripts[0]}")
        return guess.scripts[0]
    if not guess.scripts:
        why = f"{guess.interactive[0]} waits for keyboard input, which a job on a host never gets"
        raise _not_chosen(guess, typed, why)
    for number, path in enumerate(guess.scripts, 1):
        screen.note(f"{number}  {path}")

    def judge(answer: str) -> str:
        chosen = dict(enumerate(guess.scripts, 1)).get(whole_number(answer) or 0, answer)
        if chosen not in guess.scripts:
            raise _not_chosen(guess, typed, f"{len(guess.scripts)} scripts may start the training, and none was chosen")
        return chosen

    return _ask("which of these scripts starts the training? (number or path)", judge, screen, questions)


def _without_script(screen: Screen, questions: Questions, typed: Sequence[str]) -> None:
    """Print that no training script was recognised. Raises BadUsage if init cannot ask questions."""
    found = "this project has Python files, but none of them was recognised as a training script"
    if isinstance(questions, Defaults):
        again = command_line(["pipeline", "init", *typed]) or "pipeline init"
        hint = f"{again} --script PATH, or --data FOLDER for the built-in trainer"
        raise BadUsage(found, where="--script", hint=hint)
    screen.note(f"{found}: the built-in trainer is configured, which runs none of them; use --script PATH for your own")


def _not_chosen(guess: Guess, typed: Sequence[str], why: str) -> BadUsage:
    listed = [*guess.scripts, *(f"{path} (waits for input)" for path in guess.interactive)]
    first = (*guess.scripts, *guess.interactive)[0]
    again = command_line(["pipeline", "init", "--script", first, *typed])
    hint = again or shell_command("pipeline init --script {}", first)
    return BadUsage(f"{why}: {', '.join(listed)}", where="--script", hint=hint)


def start_of(guess: Guess, script: str, name: str, screen: Screen, *, named: bool) -> Start:
    """Return how the config starts the script. Print it if it is not just `python SCRIPT`."""
    start = guess.start_of(script, named=named)
    if named and not is_shell(script) and (launcher := guess.launcher_of(script)):
        screen.note(f"{launcher} starts {script} too; name it with --script to run it instead")
    folder = guess.import_folder(script, start.argv)
    start = replace(start, variables={**({"PYTHONPATH": folder} if folder else {}), **start.variables})
    if script and start.argv[1:] != (script,):
        screen.note(f"command: {shlex.join(start.argv)}")
    if start.variables:
        screen.note(f"env: {', '.join(f'{each}={value}' for each, value in start.variables.items())}")
    for note in start_notes(start, script, f"configs/{name}.yaml"):
        screen.note(note)
    return start


def requested_of_slurm(start: Start, tree: DiskTree, screen: Screen) -> Mapping[str, str | int]:
    """Return the keys of `slurm:` that the batch script requests which the command starts with bash."""
    if start.argv[:1] != ("bash",) or start.argv[1] not in tree.paths():
        return {}
    keys: Mapping[str, str | int] = {}
    with contextlib.suppress(OSError):
        keys = slurm_keys(tree.read(start.argv[1]))
    if keys:
        screen.note(f"{start.argv[1]} is a batch script: write `scheduler: slurm` into the file of a host with Slurm")
    return keys


def start_notes(start: Start, script: str, config: str) -> Iterator[str]:
    """Yield what the config does not contain of the README's commands for the script."""
    if start.places:
        differs = f"the README starts {script} with other arguments or another launcher"
        yield f"{differs} ({', '.join(start.places[:MOST_PLACES])}): complete `command:` in {config}"
    if start.omitted:
        names = ", ".join(start.omitted)
        yield f"the README also sets {names}: use `gpus:` for cards, `secrets:` for a token, else `env:` in {config}"


def choose_data(given: str, found: str, cwd: Path, screen: Screen, questions: Questions) -> str:
    """Return the folder or file that is sent separately from the code, or an empty string for none."""

    def judge(answer: str) -> str:
        if answer and not exists(cwd / expanded(answer)):
            raise BadUsage(f"{answer} does not exist in {cwd}", where="--data")
        return answer

    known = f"this project has {found}/; " if found else ""
    question = f"folder of data to send separately from the code ({known}leave empty for none)"
    return judge(given) if given else _ask(question, judge, screen, questions)


def choose_card(given: str, host: str, screen: Screen, questions: Questions) -> str:
    """Return the card to write to the host file, or "" to use the card that the host reports."""

    def judge(card: str) -> str:
        try:
            if card:
                parse_card(card)
        except UnknownCard as error:
            raise BadUsage(str(error), where="--card", instead=(card, error.near) if error.near else None) from None
        return card

    question = f"card of {host}, for plans without a connection (titan-rtx, 7.5; leave empty to query the host)"
    return judge(given) if given else _ask(question, judge, screen, questions)
