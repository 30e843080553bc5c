"""trainer-resume: a Trainer resumes from the checkpoint in HALFSTEP_RESUME_FROM.

What it does
    Passes `resume_from_checkpoint` to `train()` of a Trainer of transformers or TRL, or of a subclass in the same file.
    The value comes from `HALFSTEP_RESUME_FROM`: the run's newest verified checkpoint, or nothing.

    Not changed: files that already resume, files that save no checkpoints, and `train()` of other objects. If a file
    trains more than once (two trainers, folds, a search), the checkpoint may belong to any of these training runs, so
    the calls are reported and not changed. The fixer serves jobs that halfstep runs: `pipeline fix PATH` without a
    config includes it only with `--only`.

Why
    A Trainer starts at step 0 unless it gets a checkpoint. A job that was preempted at step 90 would repeat those
    steps.

Before
    trainer = Trainer(model=model, args=args, train_dataset=data)
    trainer.train()

After
    trainer = Trainer(model=model, args=args, train_dataset=data)
    trainer.train(resume_from_checkpoint=os.environ.get("HALFSTEP_RESUME_FROM") or None)

What it can break
    A command that runs two training scripts in sequence: both scripts get the newest checkpoint of the run, which the
    second script wrote. Use `fixers: {trainer-resume: off}` for such a project. If `HALFSTEP_RESUME_FROM` is not set,
    the training starts at step 0 as before.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.code.draft import Draft
from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.sources.imports import imported
from fixers.sources.names import FUNCTIONS, Scope
from fixers.sources.python import PythonSource, reads_python
from fixers.sources.source import Source
from remote.protocol.findings import Severity

name = "trainer-resume"
safety = "safe"
needles = (b"Trainer",)
below = None
requires: tuple[str, ...] = ()
matches = reads_python

TRAINS = re.compile(rb"\.train\(")
RESUMES = re.compile(
    rb"resume_from_checkpoint|HALFSTEP_RESUME_FROM|get_last_checkpoint|hyperparameter_search|load_from_json"
)
SAVES_NOTHING = re.compile(rb"""save_strategy\s*=\s*["']no["']""")
# TRL's other trainers have a `train` with a different signature.
TRAINER = re.compile(
    r"(?:transformers\.(?:\w+\.)*(?:Seq2Seq)?|trl\.(?:\w+\.)*(?:SFT|DPO|KTO|ORPO|CPO|BCO|GKD|PRM|GRPO|Reward))Trainer$"
)
ONCE = frozenset({"fire.Fire", "typer.run"})
"""Functions that take a function as an argument and call it once."""
LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
HARMLESS = {"ignore_keys_for_eval"}
OFFER = 'resume_from_checkpoint={os}.environ.get("HALFSTEP_RESUME_FROM") or None'
WHY = "a restarted job resumes from its checkpoint"


def rewrite(source: Source, target: Target) -> Rewrite:
    """Pass the job's checkpoint to the file's only `train()` of a Trainer."""
    if not TRAINS.search(source.searched) or RESUMES.search(source.searched) or SAVES_NOTHING.search(source.searched):
        return NOTHING
    draft = Draft(source.python, name)
    calls = [call for call in draft.source.names.of_type(ast.Call) if _trains(draft.source, call)]
    for call in calls:
        if len(calls) == 1 and _runs_once(draft.source, call):
            _resume(draft, call)
        else:
            _report(
                draft, call, "one of several training runs in this file; not changed, so every job starts at step 0"
            )
    return draft.rewrite


def _resume(draft: Draft, call: ast.Call) -> None:
    source = draft.source
    if call.args or not {keyword.arg for keyword in call.keywords} <= HARMLESS:
        return
    os, quote = imported(source, "os", WHY), source.quote_for(call)
    if os is None or quote is None:
        _report(draft, call, "this training starts at step 0 in every job; `os` cannot be imported in this file")
        return
    written = OFFER.format(os=os.name).replace('"', quote)
    draft.edits += [*os.edits, source.append_argument(call, written, WHY)]


def _report(draft: Draft, call: ast.Call, message: str) -> None:
    draft.warn(call, message, hint=OFFER.format(os="os"), severity=Severity.INFO)


def _trains(source: PythonSource, call: ast.Call) -> bool:
    """Return True if every possible value of the object with this `train()` is a Trainer."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "train":
        return False
    values = _values(source, call.func.value)
    return bool(values) and all(isinstance(each, ast.Call) and _is_trainer(source, each.func) for each in values)


def _values(source: PythonSource, owner: ast.expr) -> list[ast.expr | None]:
    """Return all possible values of the object on which a method is called. None stands for an unknown value."""
    match owner:
        case ast.Call():
            return [owner]
        case ast.Name():
            scope = next((each for each in _scopes(source, owner) if owner.id in each.bindings), None)
            if scope is None:
                return [None]
            given = [
                value
                for target, value in _assignments(source)
                if isinstance(target, ast.Name) and target.id == owner.id and source.names.scopes[target] is scope
            ]
            return given if len(given) == len(scope.bindings[owner.id]) else [None]
        case ast.Attribute(value=ast.Name()):
            return [
                value
                for target, value in _assignments(source)
                if isinstance(target, ast.Attribute) and target.attr == owner.attr
            ]
    return [None]


def _scopes(source: PythonSource, node: ast.AST) -> Iterator[Scope]:
    scope: Scope | None = source.names.scopes[node]
    while scope is not None:
        yield scope
        scope = scope.parent


def _assignments(source: PythonSource) -> list[tuple[ast.expr, ast.expr | None]]:
    plain = [(target, node.value) for node in source.names.of_type(ast.Assign) for target in node.targets]
    return [*plain, *((node.target, node.value) for node in source.names.of_type(ast.AnnAssign))]


def _is_trainer(source: PythonSource, function: ast.expr) -> bool:
    """Return True for an imported Trainer, or for a class of this file that inherits `train` from a Trainer."""
    meaning = source.names.meaning(function)
    if meaning is not None or not isinstance(function, ast.Name):
        return TRAINER.match(meaning or "") is not None
    if source.names.module.bindings.get(function.id) != [None]:
        return False
    own = [node for node in source.names.of_type(ast.ClassDef) if node.name == function.id]
    if len(own) != 1 or len(own[0].bases) != 1 or _defines_train(own[0]):
        return False
    base = own[0].bases[0]
    return not (isinstance(base, ast.Name) and base.id == function.id) and _is_trainer(source, base)


def _defines_train(own: ast.ClassDef) -> bool:
    """Return True if the class defines `train` or `__getattribute__`."""
    return any(
        (isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each.name in ("train", "__getattribute__"))
        or (isinstance(each, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "train" for t in each.targets))
        for each in own.body
    )


def _runs_once(source: PythonSource, node: ast.AST, depth: int = 0) -> bool:
    """Return True if the node is not in a loop and its function is called at most once."""
    for above in source.names.ancestors(node):
        if isinstance(above, LOOPS) or depth > 5:
            return False
        if isinstance(above, FUNCTIONS):
            return not isinstance(above, ast.Lambda) and _called_once(source, above, depth)
    return True


def _called_once(source: PythonSource, function: ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> bool:
    uses = _uses(source, function)
    if not uses:
        return True
    above = source.names.parent(uses[0])
    if len(uses) > 1 or not isinstance(above, ast.Call):
        return False
    if above.func is not uses[0] and source.names.meaning(above.func) not in ONCE:
        return False
    return _runs_once(source, above, depth + 1)


def _uses(source: PythonSource, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    """Return the references to the function.

    For a method, return every attribute access with the method's name, except method calls of a Trainer.
    """
    if not isinstance(source.names.parent(function), ast.ClassDef):
        names = source.names.of_type(ast.Name)
        return [each for each in names if each.id == function.name and isinstance(each.ctx, ast.Load)]
    named = [each for each in source.names.of_type(ast.Attribute) if each.attr == function.name]
    calls = {each: source.names.parent(each) for each in named}
    return [each for each, call in calls.items() if not (isinstance(call, ast.Call) and _trains(source, call))]
