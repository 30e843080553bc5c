"""Rename Trainer arguments in dicts that are passed as `TrainingArguments(**options)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from fixers.code.draft import Draft
from fixers.code.replaced_by_variables import is_item_replaced, is_replaced
from fixers.frame.target import Target
from fixers.settings.trainer_options import TRAINER_KEYS
from fixers.sources.chosen_words import constant_of, rewritten_literal
from fixers.sources.options import entries_of, name_of_entry
from fixers.sources.trainer_names import ARGUMENTS, Removed, Renamed

Table = Mapping[str, Renamed | Removed]
QUOTED = re.compile(rb"[\"'](?:" + b"|".join(name.encode() for name in ARGUMENTS) + rb")[\"'][ \t]*:")
MARK = b"per_device_train_batch_size"
ENOUGH = 3
WHY = "renamed in transformers"


def has_argument_dict(data: bytes) -> bool:
    """Return True if the file may contain a dict with a Trainer argument that transformers renamed or removed."""
    return MARK in data and QUOTED.search(data) is not None


def judge_options(draft: Draft, call: ast.Call, table: Table, target: Target, seen: set[int]) -> None:
    """Rename and delete keys of the dicts that the call unpacks. `seen`: ids of the keys judged so far."""
    given = {keyword.arg for keyword in call.keywords}
    for keyword in call.keywords:
        entries = list(entries_of(draft.source, keyword.value)) if keyword.arg is None else []
        names = given | {name_of_entry(key) for key, _ in entries}
        for key, value in entries:
            change = table.get(str(name_of_entry(key)))
            if change is None or id(key) in seen or not target.at_least(change.package, change.since):
                continue
            seen.add(id(key))
            _judge_entry(draft, key, value, change, taken=isinstance(change, Renamed) and change.to in names)


def judge_loose_dicts(draft: Draft, target: Target, seen: set[int]) -> None:
    """Report renamed and removed keys in dicts whose other keys are Trainer arguments."""
    for display in draft.source.names.of_type(ast.Dict):
        names = {constant_of(key) for key in display.keys if key is not None}
        if len(names.intersection(TRAINER_KEYS)) < ENOUGH:
            continue
        for key in display.keys:
            name = str(constant_of(key))
            change = ARGUMENTS.get(name)
            if key is None or change is None or id(key) in seen or name in target.code_facts.options:
                continue
            if target.at_least(change.package, change.since):
                seen.add(id(key))
                advice = change.to if isinstance(change, Renamed) else change.instead or "remove it"
                draft.warn(key, f"transformers rejects {name} if TrainingArguments gets this dict: {advice}")


def _judge_entry(
    draft: Draft, key: ast.expr | ast.keyword, value: ast.expr, change: Renamed | Removed, *, taken: bool
) -> None:
    name = str(name_of_entry(key))
    if isinstance(change, Removed):
        _remove(draft, key, value, change)
    elif taken or (change.value and constant_of(value) is not True):
        written = f"{change.to}={change.value}" if change.value else change.to
        draft.warn(key, f"{name} was renamed to {written}" + (", which is also given; remove one" if taken else ""))
    else:
        if isinstance(key, ast.keyword):
            draft.edits.append(draft.source.replace_keyword(key, change.to, WHY))
        elif isinstance(key, ast.Constant) and (literal := rewritten_literal(draft.source, key, change.to)):
            draft.replace(key, literal, WHY)
        if change.value:
            draft.replace(value, change.value, WHY)


def _remove(draft: Draft, key: ast.expr | ast.keyword, value: ast.expr, change: Removed) -> None:
    name = str(name_of_entry(key))
    above = draft.source.names.parent(key)
    why = f"transformers removed {name}"
    edit = None
    if isinstance(key, ast.keyword) and isinstance(above, ast.Call):
        edit = draft.source.remove_argument(above, key, why)
    elif isinstance(above, ast.Dict):
        edit = draft.source.remove_own_lines(key, value, why)
    if change.variable:
        item = draft.source.names.parent(above) if isinstance(above, ast.Subscript) else None
        is_item = isinstance(item, ast.Assign) and is_item_replaced(draft, item, change.variable)
        if is_item or is_replaced(draft, edit, value, change.variable):
            return
    if edit is None or change.instead:
        draft.warn(key, f"{why}: {change.instead}" if change.instead else f"{why}; remove it")
    else:
        draft.edits.append(edit)
