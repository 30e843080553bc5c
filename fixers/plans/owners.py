"""Find the training programs to which a file belongs: programs that import or read it, or that its commands start.

A config belongs to a program only if something names it: code, a command, a document or another config. A config of
Accelerate or DeepSpeed belongs to the programs that import a library which reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property
from os import fsencode
from posixpath import basename, dirname, join, normpath, splitext

from fixers.frame.change import FileChange
from fixers.frame.code_facts import reads_settings
from fixers.frame.modules import Module, read_module
from fixers.frame.site import Tree
from fixers.plans.named_paths import COMPUTED, FOLDER, QUOTED, WORD, contains_path, may_name
from fixers.plans.programs import Program, imports_any
from fixers.plans.python_settings import commands_with, is_base_of, only_assigns
from fixers.plans.reached import Reach
from fixers.plans.text_facts import TextFacts
from fixers.settings.known_formats import is_known_format, is_of_accelerate, is_of_deepspeed
from fixers.sources.commands import reads_commands
from fixers.sources.file_roles import DEFINES, uses_other_device
from fixers.sources.launched import files_named, is_document, scripts_in
from fixers.sources.notebook_commands import is_notebook

PYTHON = (".py", ".ipynb")
EVALUATION = re.compile(r"(?:^|[/_-])(?:eval\w*|inference|benchmarks?|filter(?:ing)?|generation|demos?)(?=[/_.-])")
MOST_OTHER_TEXT = 64 * 2**20
"""The size of all notebooks, configs, commands and documents that are read. The others are data."""
NAMES = re.compile(rb"[A-Za-z_]\w*")
CALLS = re.compile(rb"^\w[\w.]*\(", re.MULTILINE)
"""Matches a call at module level. A file with such calls and without definitions is a script."""
TRAINING_KEY = re.compile(
    rb"^[ \t\"']*(?:learning_rate|lr|optim\w*|\w*epochs|max_steps|\w*train\w*|gradient_accumulation\w*)[\"']?[ ]*[:=]",
    re.MULTILINE,
)
TRAINER_KEY = re.compile(
    rb"^[ \t\"']*(?:output_dir|learning_rate|num_train_epochs|per_device_train_batch_size|dataset_name)[\"']?[ ]*[:=]",
    re.MULTILINE,
)
"""Matches arguments of a Trainer, in a config that a user may name on the command line."""
OF_ACCELERATE = frozenset({"accelerate", "transformers", "trl", "peft", "diffusers"})
OF_DEEPSPEED = OF_ACCELERATE | {"deepspeed", "lightning", "pytorch_lightning"}
"""Libraries that read configs of Accelerate (OF_ACCELERATE) or of DeepSpeed (OF_DEEPSPEED)."""


class Owners:
    """Finds the programs to which a file belongs. All texts of the project are read only if the file is a config."""

    def __init__(self, tree: Tree, programs: Sequence[Program], modules: Sequence[Module] = ()) -> None:
        self.tree = tree
        self.programs = tuple(programs)
        self.modules = modules
        self.naming: dict[tuple[bytes, bytes], tuple[tuple[str, bytes], ...]] = {}
        self.read = cache(tree.read)
        self.facts = TextFacts(self.read)
        self.reach = Reach(self.read, lambda: self.words)
        self.starting: dict[str, tuple[Program, ...]] = {}
        self.settings: dict[str, tuple[Program, ...] | None] = {}

    def of(self, path: str, data: bytes) -> tuple[Program, ...] | None:
        """Return the programs to which the file belongs, or None if no training program uses it."""
        if path.endswith(PYTHON):
            own = tuple(each for each in self.programs if path in each.paths)
            return own or self._loading_by_name(path, data) or self._reading_settings(path, data)
        own, names_scripts = self.started_by(path, data), bool(scripts_in(data))
        if reads_commands(path) and uses_other_device(data):
            return None
        if own or reads_commands(path):
            return own or (None if names_scripts else self.programs) or None
        return self._of_config(path, data)

    def of_change(self, change: FileChange) -> tuple[Program, ...] | None:
        """Return the programs to which the changed file belongs, or None if no training runs the changed code."""
        own = self.of(change.path, change.before)
        training = tuple(each for each in own or () if self.reach.trains(each))
        return None if not training or self.reach.leaves_out(change, training) else training

    def _of_config(self, path: str, data: bytes) -> tuple[Program, ...] | None:
        if is_known_format(path, data):
            return self._using_libraries(path, data) or None
        return None if _only_evaluates(path, data) else self._reading(path, data)

    def started_by(self, path: str, data: bytes) -> tuple[Program, ...]:
        """Return the programs that the commands in the text start."""
        scripts = scripts_in(data)
        beside = {normpath(join(dirname(path), script)) for script in scripts}
        if found := tuple(each for each in self.programs if each.entry in beside):
            return found
        entries = [each.entry for each in self.programs]
        started = {entry for script in scripts for entry in files_named(script, path, entries)}
        return tuple(each for each in self.programs if each.entry in started)

    def of_existing(self, path: str) -> tuple[Program, ...]:
        """Return the programs to which the file in the tree belongs, or () if the file cannot be read."""
        with suppress(OSError):
            return self.of(path, self.tree.read(path)) or ()
        return ()

    def _loading_by_name(self, path: str, data: bytes) -> tuple[Program, ...] | None:
        """Return the programs that may import the module by a name that is computed at run time, or None.

        The importing file must be in a folder above the module, or a text must contain the dotted name of the module or
        of its folder. A name without dots counts only at the start of a string.
        """
        module = read_module(path, data)
        if module.starts or module.infers or (CALLS.search(data) and not DEFINES.search(data)):
            return None
        folder = f"{dirname(path)}/"
        dotted = [fsencode(each.replace("/", ".")) for each in (splitext(path)[0], dirname(path)) if each]
        forms = ((name, WORD if b"." in name else QUOTED) for name in dotted)
        naming = {program for name, form in forms for program in self._naming(path, name, form)}
        return tuple(each for each in self.programs if _computes_names(each, folder, each in naming)) or None

    def _reading_settings(self, path: str, data: bytes) -> tuple[Program, ...] | None:
        """Return the programs that get the path of this Python file of settings, or of one that inherits it, or None.

        The file of a command, or the line of a document, starts the program and contains the path.
        """
        if path not in self.settings:
            self.settings[path] = None  # files that inherit each other
            if only_assigns(data):
                name = fsencode(basename(path))
                texts = (each for each in self._texts_with(name, WORD) if each[0] != path)
                found = dict.fromkeys(each for text in texts for each in self._given(path, *text))
                self.settings[path] = tuple(found) or None
        return self.settings[path]

    def _given(self, path: str, where: str, text: bytes) -> Iterator[Program]:
        """Yield the programs that, according to `text` (the content of `where`), get the settings file `path`."""
        if is_base_of(path, where, text):
            yield from self.of(where, text) or ()
        elif reads_commands(where) or is_document(where):
            for part in commands_with(path, where, text, self.folders):
                yield from self.started_by(where, part)

    def _using_libraries(self, path: str, data: bytes) -> tuple[Program, ...]:
        """Return the programs that read a config of Accelerate or DeepSpeed.

        If some programs name the config, return only these programs. Return none if only texts that start no program
        name it, or if nothing names it, but other such configs of the project.
        """
        if not (is_of_deepspeed(data) or is_of_accelerate(path, data)):
            return self.programs
        libraries = OF_ACCELERATE if is_of_accelerate(path, data) else OF_DEEPSPEED
        using = tuple(each for each in self.programs if imports_any(each, libraries))
        named = tuple(each for each in self._naming(path, fsencode(basename(path))) if each in using)
        if named or self._linked(path, COMPUTED):
            return named or using
        return () if self._names_known_format else using

    @cached_property
    def _names_known_format(self) -> bool:
        """Whether a text of the project names a config of Accelerate or DeepSpeed."""
        known = (each for each, text in self.texts if is_known_format(each, text))
        return any(any(self._holding(each, fsencode(basename(each)), WORD)) for each in known)

    def _reading(self, path: str, data: bytes) -> tuple[Program, ...] | None:
        """Return the programs that may read the config, by its name, its stem or its folder, or None."""
        found = self._linked(path, FOLDER)
        parsing = (each for each in self.programs if any(part.parses for part in each.modules))
        found = found or (tuple(parsing) if TRAINER_KEY.search(data) else ())
        return self._nearest(path, found) or None

    def _linked(self, path: str, form: bytes) -> tuple[Program, ...]:
        """Return the programs whose texts contain the config's name or stem, or else its folder's name.

        `form`: the pattern for the folder's name, FOLDER or COMPUTED.
        """
        folder, name = dirname(path), basename(path)
        found = self._naming(path, fsencode(name)) or self._naming(path, fsencode(splitext(name)[0]))
        return found or (self._naming(path, fsencode(basename(folder)), form) if folder else ())

    def _nearest(self, path: str, found: tuple[Program, ...]) -> tuple[Program, ...]:
        """Return the programs in the nearest folder above the config, and the programs that name its whole path.

        Recipes in several folders have configs of equal names. Return all programs if no folder above has a program.
        """
        above = [each for each in found if path.startswith(f"{dirname(each.entry) or '.'}/")]
        if not above:
            return found
        nearest = max(len(dirname(each.entry)) for each in above)
        named = self._naming(path, fsencode(path))
        return tuple(each for each in found if each in named or (each in above and len(dirname(each.entry)) == nearest))

    def _naming(self, path: str, name: bytes, form: bytes = WORD) -> tuple[Program, ...]:
        """Return the programs whose code, commands or documents contain the name.

        If a config contains it, return all programs.
        """
        found: dict[Program, None] = {}
        for where, text in self._holding(path, name, form):
            found |= dict.fromkeys(self._of_text(where, text))
        return tuple(found)

    def _holding(self, path: str, name: bytes, form: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield the texts in which the name may be the path of the file."""
        for where, text in self._texts_with(name, form):
            if where != path and self._names(where, text, path, name, form):
                yield where, text

    def _names(self, where: str, text: bytes, path: str, name: bytes, form: bytes) -> bool:
        """Return True if `name`, as it occurs in `text`, may refer to the file `path`."""
        if form == COMPUTED:
            own = fsencode(basename(path))
            return any(may_name(each, own) for each in re.findall(form % re.escape(name), text))
        named = dirname(path) if form == FOLDER else path
        return form == QUOTED or b"/" in name or contains_path(where, text, named, name, self.folders)

    def _texts_with(self, name: bytes, form: bytes) -> tuple[tuple[str, bytes], ...]:
        """Return the texts that contain the name. The result is cached, because many configs have equal names."""
        known = self.naming.get((name, form))
        if known is None:
            pattern = re.compile(form % re.escape(name), re.MULTILINE)
            holding = (each for each in self.texts if name in each[1])
            known = self.naming[name, form] = tuple(each for each in holding if pattern.search(each[1]))
        return known

    def _of_text(self, path: str, text: bytes) -> Iterable[Program]:
        if path.endswith(PYTHON):
            started = self.started_by(path, text) if is_notebook(path) else ()
            return (each for each in self.programs if path in each.paths or each in started)
        if not (reads_commands(path) or is_document(path)):
            return self.programs
        if reads_commands(path) and uses_other_device(text):
            return ()
        if path not in self.starting:
            only_others = reads_commands(path) and scripts_in(text)
            self.starting[path] = self.started_by(path, text) or (() if only_others else self.programs)
        return self.starting[path]

    @cached_property
    def folders(self) -> frozenset[str]:
        return frozenset(map(dirname, self.tree.paths()))

    @cached_property
    def words(self) -> frozenset[str]:
        """The words in the configs and commands of the project that may be names of code."""
        texts = (text for path, text in self.texts if not (path.endswith(PYTHON) or is_document(path)))
        return frozenset(each.decode() for text in texts for each in NAMES.findall(text))

    @cached_property
    def texts(self) -> tuple[tuple[str, bytes], ...]:
        """The code, commands, documents and configs of the project."""
        return tuple(self._read_texts())

    def _read_texts(self) -> Iterator[tuple[str, bytes]]:
        room = MOST_OTHER_TEXT
        for path in self.tree.paths():
            if reads_settings(path) or path.endswith(PYTHON):
                with suppress(OSError):
                    data = self.tree.read(path)
                    room -= 0 if path.endswith(".py") else len(data)
                    if path.endswith(".py") or room >= 0:
                        yield path, data


def commands_naming(configs: Iterable[str], changes: Iterable[FileChange]) -> frozenset[str]:
    """Return the paths of the changed command files that name one of the configs."""
    names = [fsencode(basename(path)) for path in configs]
    commands = (each for each in changes if reads_commands(each.path))
    return frozenset(each.path for each in commands if any(name in each.before for name in names))


def _only_evaluates(path: str, data: bytes) -> bool:
    """Return True for a config that is in a folder of evaluation or filtering and has no training key."""
    return EVALUATION.search(path.lower()) is not None and TRAINING_KEY.search(data) is None


def _computes_names(program: Program, folder: str, is_named: bool) -> bool:
    """Return True if a file of the program imports modules by computed names, which may name modules in the folder."""
    dynamic = (dirname(module.path) for module in program.modules if module.dynamic)
    return any(is_named or not above or folder.startswith(f"{above}/") for above in dynamic)
