"""Questions of `pipeline init` whose answers are checked. A wrong answer is explained, and the question asked again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pipeline.config.draft import Guess
from pipeline.show.prompts import Defaults, Questions
from pipeline.show.screen import Screen
from remote.errors import BadUsage
from remote.policy.cards import UnknownCard, parse_card
from remote.project.paths import exists, expanded, is_file
from remote.protocol.shell import shell_command
from remote.protocol.text import whole_number

ATTEMPTS = 3


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


def choose_script(guess: Guess, given: str, data: str, cwd: Path, screen: Screen, questions: Questions) -> str:
    """Return the training script: the given script, the only candidate, or the user's choice, or "" for none."""
    if given:
        if not is_file(cwd / given):
            raise BadUsage(f"{given} does not exist in {cwd}", where="--script")
        if given in guess.interactive:
            screen.note(f"{given} waits for keyboard input, which a job on a host never gets")
        return given
    if not (guess.scripts or guess.interactive):
        if guess.sources and not data:
            _without_script(screen, questions)
        elif not data:
            screen.note("no training script was found: this config is the demo (built-in trainer, tiny model and data)")
            screen.note("for your own: --script PATH, or --data FOLDER for the built-in trainer")
        return ""
    if len(guess.scripts) == 1:
        screen.note(f"training script: {guess.scripts[0]}")
        return guess.scripts[0]
    if not guess.scripts:
        raise _not_chosen(guess, f"{guess.interactive[0]} waits for keyboard input, which a job on a host never gets")
    for number, path in enumerate(guess.scripts, 1):
        screen.note(f"{number}  {path}")

    def judge(answer: str) -> str:
        chosen = dict(enumerate(guess.scripts, 1)).get(whole_number(answer) or 0, answer)
        if chosen not in guess.scripts:
            raise _not_chosen(guess, f"{len(guess.scripts)} scripts may start the training, and none was chosen")
        return chosen

    return _ask("which of these scripts starts the training? (number or path)", judge, screen, questions)


def _without_script(screen: Screen, questions: Questions) -> None:
    """Print that no training script was recognised. Raises BadUsage if init cannot ask questions."""
    found = "this project has Python files, but none of them was recognised as a training script"
    if isinstance(questions, Defaults):
        hint = "pipeline init --script PATH, or --data FOLDER for the built-in trainer"
        raise BadUsage(found, where="--script", hint=hint)
    screen.note(f"{found}: the built-in trainer is configured, which runs none of them; use --script PATH for your own")


def _not_chosen(guess: Guess, why: str) -> BadUsage:
    listed = [*guess.scripts, *(f"{path} (waits for input)" for path in guess.interactive)]
    first = (*guess.scripts, *guess.interactive)[0]
    return BadUsage(
        f"{why}: {', '.join(listed)}", where="--script", hint=shell_command("pipeline init --script {}", first)
    )


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
