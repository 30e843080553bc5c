"""trainer-resume: a Trainer goes on from the checkpoint that its job is offered.

What it does
    `train()` of a Trainer of transformers or TRL (or of a subclass written in the same file) gets
    `resume_from_checkpoint`, from `HALFSTEP_RESUME_FROM`: the run's newest verified checkpoint, or nothing. A file that
    resumes already in some way, or saves no checkpoints, is left alone, and so is a `train()` of anything else. Where a
    file trains more than once (two trainers, folds, a search), a checkpoint belongs to one of the trainings, so the
    places are only named.

Why
    A Trainer starts at step 0 unless it is given a checkpoint. A job that was stopped or preempted at step 90 would
    train those 90 steps again.

Before
    trainer = Trainer(model=model, args=args, train_dataset=data)
    trainer.train()

After
    trainer = Trainer(model=model, args=args, train_dataset=data)
    trainer.train(resume_from_checkpoint=os.environ.get("HALFSTEP_RESUME_FROM") or None)

What it can break
    A command that runs two training scripts one after the other: both are offered the newest checkpoint of the run,
    which is of the second. `fixers: {trainer-resume: off}` leaves such a project alone. Without `HALFSTEP_RESUME_FROM`
    in the environment nothing changes.

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
version = 1
safety = "safe"
needles = (b"Trainer",)
below = None
brings: tuple[str, ...] = ()
matches = reads_python

TRAINS = re.compile(rb"\.train\(")
RESUMES = re.compile(
    rb"resume_from_checkpoint|HALFSTEP_RESUME_FROM|get_last_checkpoint|hyperparameter_search|load_from_json"
)
SAVES_NOTHING = re.compile(rb"""save_strategy\s*=\s*["']no["']""")
# The others of TRL have a `train` with a signature of its own.
TRAINER = re.compile(
    r"(?:transformers\.(?:\w+\.)*(?:Seq2Seq)?|trl\.(?:\w+\.)*(?:SFT|DPO|KTO|ORPO|CPO|BCO|GKD|PRM|GRPO|Reward))Trainer$"
)
ONCE = frozenset({"fire.Fire", "typer.run"})
"""What calls a function that it is given once."""
LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
HARMLESS = {"ignore_keys_for_eval"}
OFFER = 'resume_from_checkpoint={os}.environ.get("HALFSTEP_RESUME_FROM") or None'
WHY = "a job that was offered a checkpoint goes on from it"


def rewrite(source: Source, target: Target) -> Rewrite:
    """The one `train()` of a Trainer in the file is given the checkpoint that the job is offered."""
    if not TRAINS.search(source.data) or RESUMES.search(source.data) or SAVES_NOTHING.search(source.data):
        return NOTHING
    draft = Draft(source.python, name)
    calls = [call for call in draft.source.names.of_type(ast.Call) if _trains(draft.source, call)]
    for call in calls:
        if len(calls) == 1 and _runs_once(draft.source, call):
            _resume(draft, call)
        else:
            _name(draft, call, "one of several trainings, which starts at step 0 in every job")
    return draft.rewrite


def _resume(draft: Draft, call: ast.Call) -> None:
    source = draft.source
    if call.args or not {keyword.arg for keyword in call.keywords} <= HARMLESS:
        return
    os, quote = imported(source, "os", WHY), source.quote_for(call)
    if os is None or quote is None:
        _name(draft, call, "starts at step 0 in every job, and `os` cannot be imported here")
        return
    written = OFFER.format(os=os.name).replace('"', quote)
    draft.edits += [*os.edits, source.append_argument(call, written, WHY)]


def _name(draft: Draft, call: ast.Call, message: str) -> None:
    draft.warn(call, message, hint=OFFER.format(os="os"), severity=Severity.INFO)


def _trains(source: PythonSource, call: ast.Call) -> bool:
    """`train` of an object that can only be a Trainer."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "train":
        return False
    values = _values(source, call.func.value)
    return bool(values) and all(isinstance(each, ast.Call) and _is_trainer(source, each.func) for each in values)


def _values(source: PythonSource, owner: ast.expr) -> list[ast.expr | None]:
    """All that the owner of a method may be; None stands for what is not known."""
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
    here: Scope | None = source.names.scopes[node]
    while here is not None:
        yield here
        here = here.parent


def _assignments(source: PythonSource) -> list[tuple[ast.expr, ast.expr | None]]:
    plain = [(target, node.value) for node in source.names.of_type(ast.Assign) for target in node.targets]
    return [*plain, *((node.target, node.value) for node in source.names.of_type(ast.AnnAssign))]


def _is_trainer(source: PythonSource, function: ast.expr) -> bool:
    """A Trainer that is imported, or a class of this file that inherits its `train` from one."""
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
    """A `train` of its own, or an attribute whose name is only known when it runs."""
    return any(
        (isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each.name in ("train", "__getattribute__"))
        or (isinstance(each, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "train" for t in each.targets))
        for each in own.body
    )


def _runs_once(source: PythonSource, node: ast.AST, depth: int = 0) -> bool:
    """Not in a loop, and the function that it stands in is called once at most."""
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
    """Where the file names the function; a method by its name on any object but a Trainer."""
    if not isinstance(source.names.parent(function), ast.ClassDef):
        names = source.names.of_type(ast.Name)
        return [each for each in names if each.id == function.name and isinstance(each.ctx, ast.Load)]
    named = [each for each in source.names.of_type(ast.Attribute) if each.attr == function.name]
    calls = {each: source.names.parent(each) for each in named}
    return [each for each, call in calls.items() if not (isinstance(call, ast.Call) and _trains(source, call))]
