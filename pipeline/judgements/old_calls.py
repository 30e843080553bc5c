"""Find calls and overrides that newer libraries reject, such as positional arguments of librosa. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterable, Iterator, Mapping

from fixers.frame.site import Tree
from fixers.sources.python import PythonSource
from pipeline.judgements.old_uses import OldUse, Project, judge_uses, project_of, sources_with
from remote.protocol.findings import Report

NEEDLES = (b"tostring_rgb", b"stft", b"librosa", b"Trainer", b"use_auth_token")
TRAINER = re.compile(r"transformers\.(?:\w+\.)*\w*Trainer$")
MODEL = re.compile(r"\w*(?:Model|For[A-Z])\w*$")
POSITIONAL = {
    **dict.fromkeys(("filters.mel", "feature.melspectrogram", "feature.mfcc", "feature.rms", "get_duration"), 0),
    **dict.fromkeys(("load", "stft", "istft", "griffinlim", "resample", "power_to_db", "amplitude_to_db", "yin"), 1),
    **dict.fromkeys(("util.normalize", "util.pad_center", "util.fix_length", "util.frame", "effects.trim"), 1),
    **dict.fromkeys(("effects.time_stretch", "effects.pitch_shift", "pyin"), 1),
}
"""The number of positional arguments that functions of librosa 0.10 and newer accept."""
STFT_ARGUMENTS = 10
"""The number of parameters of torch.stft. `return_complex` is the last one."""
OVERRIDES = {"training_step": ("transformers", (4, 46), 3), "compute_loss": ("transformers", (4, 46), 4)}
"""Methods to which Trainer passes `num_items_in_batch`: the first such version, and the parameters before it."""
ITEMS = "num_items_in_batch"


def judge_old_calls(tree: Tree, paths: Iterable[str], packages: Mapping[str, str]) -> Report:
    """Return a warning for each call or override that the installed version of its library rejects.

    `paths`: the files that the command uses. `packages`: the versions by package.
    """
    sources, project = tuple(sources_with(NEEDLES, tree, paths)), project_of(tree, packages)
    trainers = _trainers(sources)
    return judge_uses(sources, lambda source: (*_calls(source, project, trainers), *_overrides(source, project)))


def _trainers(sources: Iterable[PythonSource]) -> dict[str, PythonSource]:
    """Return the file of each class that inherits its constructor from a Trainer of transformers, by unique name."""
    found: dict[str, list[tuple[PythonSource, ast.ClassDef]]] = {}
    for source in sources:
        for each in source.names.of_type(ast.ClassDef):
            found.setdefault(each.name, []).append((source, each))
    return {
        name: classes[0][0]
        for name, classes in found.items()
        if len(classes) == 1 and _is_trainer(*classes[0]) and "__init__" not in _methods(classes[0][1])
    }


def _is_trainer(source: PythonSource, each: ast.ClassDef) -> bool:
    return any(TRAINER.match(source.names.meaning(base) or "") for base in each.bases)


def _methods(each: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in each.body if isinstance(node, ast.FunctionDef)}


def _calls(source: PythonSource, project: Project, trainers: Mapping[str, PythonSource]) -> Iterator[OldUse]:
    imported = {name for name, file in trainers.items() if file is not source}
    for call in source.names.of_type(ast.Call):
        qualified = source.names.meaning(call.func) or ""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if qualified.partition(".")[0] in ("torch", "librosa") and qualified.partition(".")[0] in project.own:
            continue
        yield from _of_torch(call, qualified, project)
        yield from _of_librosa(call, qualified, project)
        yield from _of_matplotlib(call, name, project)
        yield from _of_transformers(call, qualified, project, imported)


def _of_torch(call: ast.Call, qualified: str, project: Project) -> Iterator[OldUse]:
    if qualified != "torch.stft" or _unpacks(call) or len(call.args) >= STFT_ARGUMENTS:
        return
    given = {each.arg for each in call.keywords}
    if "return_complex" not in given and (installed := project.lacks("torch", (2,))):
        yield OldUse(
            call,
            f"torch.stft of torch {installed} needs return_complex for real input",
            "torch.view_as_real(torch.stft(..., return_complex=True)) has the old form",
        )


def _of_librosa(call: ast.Call, qualified: str, project: Project) -> Iterator[OldUse]:
    root, _, name = qualified.partition(".")
    most = POSITIONAL.get(name) if root == "librosa" else None
    if most is None or any(isinstance(each, ast.Starred) for each in call.args) or len(call.args) <= most:
        return
    if installed := project.lacks("librosa", (0, 10)):
        message = f"librosa.{name} of librosa {installed} accepts {most or 'no'} positional argument{'s' * (most != 1)}"
        yield OldUse(call, message, "pass the others by keyword, such as sr=... and n_fft=...")


def _of_matplotlib(call: ast.Call, name: str, project: Project) -> Iterator[OldUse]:
    if name == "tostring_rgb" and not call.args and (installed := project.lacks("matplotlib", (3, 10))):
        yield OldUse(
            call,
            f"canvases of matplotlib {installed} have no tostring_rgb()",
            "np.asarray(fig.canvas.buffer_rgba())[..., :3] has the shape (height, width, 3)",
        )


def _of_transformers(call: ast.Call, qualified: str, project: Project, trainers: Container[str]) -> Iterator[OldUse]:
    installed = project.lacks("transformers", (5,))
    root, _, name = qualified.rpartition(".")
    made = root.rpartition(".")[2]
    for keyword in call.keywords if installed else ():
        if keyword.arg == "use_auth_token" and name == "from_pretrained" and MODEL.match(made):
            if root.partition(".")[0] == "transformers":
                yield OldUse(keyword, f"{made}.from_pretrained of transformers {installed} rejects it", "token=...")
        elif keyword.arg == "tokenizer" and name in trainers:
            message = f"{name} derives the Trainer of transformers {installed}, which rejects tokenizer"
            yield OldUse(keyword, message, "processing_class=..., with the same value")


def _overrides(source: PythonSource, project: Project) -> Iterator[OldUse]:
    for each in source.names.of_type(ast.ClassDef):
        methods = _methods(each) if _is_trainer(source, each) else {}
        for name, (package, since, before) in OVERRIDES.items():
            method, installed = methods.get(name), project.lacks(package, since)
            # An override of training_step decides itself what it passes to compute_loss.
            decides = name == "compute_loss" and "training_step" in methods
            if method is not None and installed and not decides and not _takes_items(method.args, before):
                message = f"the Trainer of {package} {installed} passes {ITEMS} to {name}()"
                yield OldUse(method, message, f"def {name}(..., {ITEMS}=None)")


def _takes_items(given: ast.arguments, before: int) -> bool:
    """Return True if a method accepts the argument, by name or by position."""
    names = {each.arg for each in (*given.args, *given.kwonlyargs)}
    by_position = given.vararg is not None or len(given.posonlyargs) + len(given.args) > before
    return ITEMS in names or given.kwarg is not None or by_position


def _unpacks(call: ast.Call) -> bool:
    return any(each.arg is None for each in call.keywords) or any(isinstance(each, ast.Starred) for each in call.args)
