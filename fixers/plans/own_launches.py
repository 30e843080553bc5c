"""Find the files that run only under DeepSpeed, in several processes or on several machines, from the commands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from posixpath import basename, dirname, normpath, splitext

from fixers.frame.site import Tree
from fixers.sources.file_roles import DEFINES, INFERS, OF_EVALUATION, imported_names, names_training
from fixers.sources.launched import Launched, scripts_of

DEEPSPEED = "DEEPSPEED"


def deepspeed_only(
    tree: Tree,
    launched: Sequence[Launched],
    untrained: Collection[str],
    modules: Sequence[str],
    accelerate: Sequence[tuple[str, str]] = (),
) -> tuple[str, ...]:
    """Return the scripts that are started only with DeepSpeed, and the modules that only these scripts import.

    `untrained`: scripts that never train. These scripts and scripts with the name of an inference script are ignored.
    `accelerate`: the configs of Accelerate, each with its distributed type. If a command names a config that is not in
    `accelerate`, the command may use any config without DeepSpeed that no command names.
    """
    with_deepspeed: set[str] = set()
    without: set[str] = set()
    unnamed = _unnamed(launched, accelerate)
    for each in launched:
        scripts = [path for path in scripts_of(each, modules) if path not in untrained and not _infers(tree, path)]
        deepspeed = _type_of(each, accelerate) == DEEPSPEED or each.deepspeed
        (with_deepspeed if deepspeed else without).update(scripts)
        if each.config and unnamed and not _type_of(each, accelerate):
            without.update(scripts)
    if not with_deepspeed:
        return ()
    imports = _Imports(tree, modules)
    return tuple(sorted(imports.reached(with_deepspeed) - imports.reached(without)))


def reached_by(
    tree: Tree,
    launched: Sequence[Launched],
    started: Collection[str],
    modules: Sequence[str],
    several: Callable[[Launched], bool],
) -> tuple[str, ...]:
    """Return the scripts that commands start in `several` machines or processes, and all modules that they import.

    `started`: the files that a config starts. halfstep may start the scripts of a config on several cards and hosts.
    """
    commands = (each for each in launched if several(each) or each.path in started)
    scripts = {path for each in commands for path in scripts_of(each, modules)} | {*started}.intersection(modules)
    return tuple(sorted(_Imports(tree, modules).reached(scripts))) if scripts else ()


def _unnamed(launched: Sequence[Launched], accelerate: Sequence[tuple[str, str]]) -> list[str]:
    """Return the configs of Accelerate that do not select DeepSpeed and that no command names."""
    plain = (path for path, kind in accelerate if kind != DEEPSPEED)
    return [path for path in plain if not any(_is_named(path, each) for each in launched)]


def _type_of(launched: Launched, accelerate: Sequence[tuple[str, str]]) -> str:
    return next((kind for path, kind in accelerate if _is_named(path, launched)), "")


def _is_named(path: str, launched: Launched) -> bool:
    return bool(launched.config) and f"/{path}".endswith(f"/{normpath(launched.config)}")


def _infers(tree: Tree, path: str) -> bool:
    """Return True for a script that uses a trained model, or that defines code of its own and names no training."""
    if INFERS.search(splitext(basename(path))[0].lower()) or OF_EVALUATION.search(path.lower()):
        return True
    with suppress(OSError):
        data = tree.read(path)
        return DEFINES.search(data) is not None and not names_training(data)
    return False


class _Imports:
    """The imports of the project's modules, judged by the words in import statements."""

    def __init__(self, tree: Tree, modules: Sequence[str]) -> None:
        self.tree = tree
        self.by_name: dict[bytes, list[str]] = {}
        for path in modules:
            self.by_name.setdefault(_name_of(path), []).append(path)

    def reached(self, starts: Collection[str]) -> set[str]:
        """Return the modules `starts`, and all modules that they import, directly or indirectly."""
        reached: set[str] = set()
        new = set(starts)
        while new:
            reached |= new
            new = {each for path in new for each in self.imported_by(path)} - reached
        return reached

    def imported_by(self, path: str) -> set[str]:
        with suppress(OSError):
            words = {*imported_names(self.tree.read(path))}
            named = (each for word in words & self.by_name.keys() for each in self.by_name[word])
            return {each for each in named if _is_near(each, path, words)}
        return set()


def _name_of(path: str) -> bytes:
    """Return the name by which the module is imported. For a package's `__init__.py`, it is the folder's name."""
    stem = splitext(basename(path))[0]
    return (basename(dirname(path)) if stem == "__init__" else stem).encode()


def _is_near(module: str, importer: str, words: Collection[bytes]) -> bool:
    """Return True if the importing file is in the module's folder or imports the folder's name."""
    folder = dirname(module)
    return folder == dirname(importer) or not folder or basename(folder).encode() in words
