"""Rename old Trainer arguments on command lines and in settings files to their names in newer transformers versions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.settings.edit_list import EditList
from fixers.settings.launch_text import LaunchText
from fixers.settings.removed_options import remove_key, remove_option
from fixers.settings.text_arguments import holds_arguments, text_of
from fixers.sources.commands import read_commands, reads_commands
from fixers.sources.config_commands import commands_in_config
from fixers.sources.config_files import read_config, reads_config
from fixers.sources.nodes import Mapping, Scalar
from fixers.sources.shell_words import scan_shell
from fixers.sources.source import Source
from fixers.sources.trainer_names import ARGUMENTS, Removed, Renamed
from fixers.sources.unparsable import Unparsable
from fixers.sources.words import Command, Word
from remote.protocol.dataclass import dataclass

OPTIONS = tuple(name.encode() for key in ARGUMENTS for name in dict.fromkeys((key, key.replace("_", "-"))))
OPTION = re.compile(r"--([A-Za-z][\w-]*)(?:=.*)?", re.DOTALL)
TRAINER_KEYS = ("output_dir", "per_device_train_batch_size", "learning_rate", "num_train_epochs")
WHY = "the current name in transformers"


def reads_options(path: str) -> bool:
    return reads_commands(path) or reads_config(path)


def rewrite_options(source: Source, target: Target, check: str) -> Rewrite:
    """Return the edits that rename old Trainer options, if the project parses options into Trainer arguments."""
    if not target.code_facts.into_trainer or not any(option in source.data for option in OPTIONS):
        return NOTHING
    renaming = _Renaming(EditList(source.path, source.data, check), target)
    try:
        if reads_commands(source.path):
            commands = read_commands(source.path, source.data).commands
        else:
            commands = commands_in_config(source.path, source.data).commands
            for document in read_config(source.path, source.data):
                if isinstance(document, Mapping):
                    renaming.judge_keys(document)
    except Unparsable:
        return NOTHING  # The precision fixers already report a file that does not parse.
    return renaming.rewrite_commands(commands)


def rewrite_launch_options(launch: LaunchText, target: Target, check: str) -> Rewrite:
    """Return the edits that rename old Trainer options in the job's configured command."""
    if not target.code_facts.into_trainer:
        return NOTHING
    return _Renaming(EditList("command", launch.data, check), target).rewrite_commands(launch.script.commands)


@dataclass
class _Renaming:
    """Collects the edits of one file."""

    edit_list: EditList
    target: Target

    def rewrite_commands(self, commands: Iterable[Command]) -> Rewrite:
        for command in commands:
            self.judge(command)
        return self.edit_list.rewrite

    def judge(self, command: Command, *, is_quoted: bool = False) -> None:
        self.judge_words(command.words, None if is_quoted else command)
        for assignment in command.assignments:
            self.judge_words(assignment.items)
        insides = [text_of(word) for word in command.words]
        for inside in [*insides, *(assignment.value.inside for assignment in command.assignments)]:
            if inside and holds_arguments(self.edit_list.data[slice(*inside)]):
                for inner in scan_shell(self.edit_list.data, *inside).commands:
                    self.judge(inner, is_quoted=True)

    def judge_words(self, words: Sequence[Word], command: Command | None = None) -> None:
        present = {name for _, name in _options(words)}
        for at, name in _options(words):
            change = self._change_of(name)
            start = words[at].start
            if change is None:
                continue
            message = _message(name, change, present)
            if message:
                self.edit_list.warn(start, message)
            elif isinstance(change, Renamed):
                written = self.edit_list.data[start + 2 : start + 2 + len(name)]
                new = change.to.replace("_", "-") if b"-" in written else change.to
                self.edit_list.put(start + 2, start + 2 + len(name), new.encode(), WHY)
            else:
                remove_option(self.edit_list, words, at, change, command)

    def judge_keys(self, document: Mapping) -> None:
        """Rename or remove keys in a file of Trainer arguments, a flat mapping with a common Trainer key."""
        keys = {key.text for key, _ in document.entries if isinstance(key, Scalar)}
        if not keys & {*TRAINER_KEYS}:
            return
        for at, (key, _) in enumerate(document.entries):
            change = self._change_of(key.text) if isinstance(key, Scalar) else None
            if change is None or not isinstance(key, Scalar):
                continue
            message = _message(key.text, change, keys)
            if message:
                self.edit_list.warn(key.span.start, message)
            elif isinstance(change, Removed):
                if not remove_key(self.edit_list, document, at, change):
                    self.edit_list.warn(key.span.start, f"transformers removed {key.text}; remove it")
            else:
                text = f"{key.style}{change.to}{key.style}"
                self.edit_list.put(key.span.start, key.span.end, text.encode(), WHY)

    def _change_of(self, name: str) -> Renamed | Removed | None:
        name = name.replace("-", "_")
        change = ARGUMENTS.get(name)
        if change is None or name in self.target.code_facts.options:
            return None
        return change if self.target.at_least(change.package, change.since) else None


def _options(words: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """Yield the index and name of each option without a shell expansion."""
    for at, word in enumerate(words):
        matched = OPTION.fullmatch(word.raw)
        if matched:
            yield at, matched[1]


def _message(name: str, change: Renamed | Removed, present: set[str]) -> str:
    """Return the warning for an option that cannot be edited automatically, or an empty string for other options."""
    if isinstance(change, Removed):
        return f"transformers removed {name}: {change.instead}" if change.instead and not change.variable else ""
    if change.value:
        return f"{name} was removed: use {change.to} {change.value}"
    if change.to in {each.replace("-", "_") for each in present}:
        return f"{name} was renamed to {change.to}, which is also given; remove one"
    return ""
