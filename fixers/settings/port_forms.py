"""Edit launches that use port 29500, explicitly or by default."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from fixers.frame.source_fixer import Rewrite
from fixers.settings.launch_options import CommandOption, options_of
from fixers.settings.precision_words import is_false
from fixers.sources.nodes import Mapping, Node, Scalar, walk
from fixers.sources.splice import Edit
from fixers.sources.words import Script, Word
from remote.protocol.text import whole_number

DEFAULT = "29500"
LOCAL_RENDEZVOUS = re.compile(r"((?:localhost|127\.0\.0\.1|\[::1\]):)29500")
MULTI_PROCESS_OPTIONS = ("multi_gpu", "use_fsdp", "use_deepspeed", "use_megatron_lm")
MULTI_MACHINE_OPTIONS = ("num_machines", "machine_rank", "main_process_ip", "nnodes", "node_rank", "master_addr")
WHY = "29500 is the default of all launchers; 0 selects a free port"


def judge_script(data: bytes, script: Script) -> Rewrite:
    """Return the edits for every launch in a script."""
    lines = [words for each in script.commands for words in (each.words, *(a.items for a in each.assignments))]
    edits = [edit for words in lines for edit in _judge_words(data, words)]
    return Rewrite(tuple({edit.start: edit for edit in edits}.values()))


def judge_config(data: bytes, documents: Iterable[Node], script: Script) -> Rewrite:
    """Return the edits for an Accelerate config and for the commands in a settings file."""
    edits = list(judge_script(data, script).edits)
    for document in documents:
        edits += [edit for mapping in _mappings(document) for edit in _judge_mapping(data, mapping)]
    return Rewrite(tuple({edit.start: edit for edit in edits}.values()))


def _mappings(document: Node) -> Iterable[Mapping]:
    if isinstance(document, Mapping):
        yield document
    yield from (value for _, _, value in walk(document) if isinstance(value, Mapping))


def _judge_mapping(data: bytes, mapping: Mapping) -> Iterable[Edit]:
    port, machines = mapping.get("main_process_port"), mapping.get("num_machines")
    one = not isinstance(machines, Scalar) or machines.text == "1"
    if isinstance(port, Scalar) and port.text == DEFAULT and one:
        start = port.span.start + len(port.style)
        yield Edit(start, DEFAULT.encode(), b"0", WHY)


def _judge_words(data: bytes, words: Sequence[Word]) -> Iterable[Edit]:
    options = tuple(options_of(words))
    if any(_selects_several_machines(each) for each in options):
        return
    for each in options:
        value = each.value
        if value is None or value.text is None:
            continue
        if each.name == "main_process_port" and value.text == DEFAULT:
            yield Edit(value.start, DEFAULT.encode(), b"0", WHY)
        elif each.name == "rdzv_endpoint" and LOCAL_RENDEZVOUS.fullmatch(value.text):
            yield Edit(value.end - len(DEFAULT), DEFAULT.encode(), b"0", WHY)
    launch = _accelerate_launch(words)
    named = any(each.name in ("main_process_port", "config_file") for each in options)
    if launch is not None and not named and any(_starts_several_processes(each) for each in options):
        yield _insertion(data, words, launch)


def _accelerate_launch(words: Sequence[Word]) -> Word | None:
    """Return the word `launch` of an `accelerate launch` command, or None for other commands."""
    for first, second in pairwise(words):
        if (first.text or "").rpartition("/")[2] == "accelerate" and second.text == "launch":
            return second
    return None


def _insertion(data: bytes, words: Sequence[Word], launch: Word) -> Edit:
    """Insert `--main_process_port 0` after `launch`, in the notation of the command (shell, list or NUL-separated)."""
    after = words[list(words).index(launch) + 1]
    between = data[launch.end : after.start].decode("latin-1")
    if between == "\0":
        text = "\0--main_process_port\x000"
    elif "," in between:
        quote = launch.raw[:1] if launch.raw[:1] in "'\"" else ""
        text = f", {quote}--main_process_port{quote}, {quote or chr(34)}0{quote or chr(34)}"
    elif between.strip("\\\r\n\t ") == "-":
        text = f"{between}--main_process_port{between}'0'"
    else:
        text = " --main_process_port 0"
    return Edit(launch.end, b"", text.encode("latin-1"), WHY)


def _starts_several_processes(each: CommandOption) -> bool:
    value = each.value.text if each.value else None
    if each.name in MULTI_PROCESS_OPTIONS:
        return value is None or not is_false(value)
    return each.name == "num_processes" and (whole_number(value or "") or 0) > 1


def _selects_several_machines(each: CommandOption) -> bool:
    value = each.value.text if each.value else None
    return each.name in MULTI_MACHINE_OPTIONS and not (each.name in ("num_machines", "nnodes") and value == "1")
