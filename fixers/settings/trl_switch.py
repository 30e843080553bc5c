"""Add `fp16` to commands and configs of TRL: TRL computes in bfloat16 unless `fp16` is set."""

from __future__ import annotations

from collections.abc import Collection
from posixpath import basename

from fixers.frame.code_facts import CodeFacts
from fixers.settings.edit_list import EditList
from fixers.settings.launch_options import CommandOption
from fixers.settings.trainer_options import TRAINER_KEYS
from fixers.sources.nodes import Mapping, Scalar
from fixers.sources.splice import newline_of

DTYPES = ("dtype", "torch_dtype")
SWITCHES = frozenset({"bf16", "fp16"})
NOT_BESIDE = SWITCHES | {"config"}
WHY = "TRL computes in bfloat16 unless fp16 is set"


def add_switch_to_command(
    edit_list: EditList, option: CommandOption, given: Collection[str], program: str, facts: CodeFacts
) -> None:
    """Add `--fp16 True` before the dtype of a command that starts a TRL script with neither `--bf16` nor `--fp16`."""
    if option.name not in DTYPES or not option.flag.raw.startswith("--") or any(name in given for name in NOT_BESIDE):
        return
    if basename(program) in {basename(path) for path in facts.trl_scripts}:
        edit_list.put(option.flag.start, option.flag.start, b"--fp16 True ", WHY)


def add_switch_to_config(edit_list: EditList, document: Mapping, facts: CodeFacts) -> None:
    """Add `fp16: true` before a dtype that becomes float16, in a YAML file of TRL arguments with no such switch."""
    keys = {key.text: key for key, _ in document.entries if isinstance(key, Scalar)}
    if not facts.trl_scripts or SWITCHES & keys.keys() or not keys.keys() & {*TRAINER_KEYS}:
        return
    for key, value in document.entries:
        if not isinstance(key, Scalar) or key.text not in DTYPES or value.span.start not in edit_list.edits:
            continue
        start = key.span.start
        if not key.style and _is_first(edit_list.data, start):
            edit_list.put(start, start, b"fp16: true" + newline_of(edit_list.data), WHY)


def _is_first(data: bytes, start: int) -> bool:
    """Return True if the position is the start of a line."""
    return start == 0 or data[start - 1 : start] in (b"\n", b"\r")
