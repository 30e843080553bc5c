"""The scripts that shell scripts, Makefiles and documents start, and whether each start uses DeepSpeed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from posixpath import dirname, join, normpath

DOCUMENTS = (".md", ".rst", ".markdown")
CONTINUED = re.compile(rb"\\[ \t]*\r?\n")
LAUNCHER = rb"(?:python[\d.]*|torchrun|deepspeed|accelerate|torch\.distributed\.\w+|srun|mpirun|uv[ ]run|\$\{?\w+\}?)"
STARTS = re.compile(
    rb"(?:^|[\s\"'`(;&|])" + LAUNCHER + rb"(?=[\s\"'])[^\n#;|]*?"
    rb"(?:(?<![\w.])-m[ \t]+(?P<module>(?!torch|accelerate|deepspeed|pip|venv)[A-Za-z_][\w.]*)"
    rb"|(?P<script>[^\s\"'`=,]*\w\.py)\b)"
)
USES_DEEPSPEED = re.compile(rb"deepspeed|zero[-_]?[123]|\bds[-_]?config", re.IGNORECASE)
ASSIGNMENT = re.compile(rb"^[ \t]*(?:export[ \t]+)?(\w+)=([^\n]*)", re.MULTILINE)
VARIABLE = re.compile(rb"\$\{?(\w+)")
OUTSIDE = re.compile(r"^(?:[^/]*\$[^/]*/|\./|/)+")


@dataclass(frozen=True)
class Launched:
    """One start of a script: the file that starts it, the script as named there, and whether DeepSpeed starts it."""

    path: str
    script: str
    deepspeed: bool


def is_document(path: str) -> bool:
    return path.lower().endswith(DOCUMENTS)


def launched_in(path: str, data: bytes) -> tuple[Launched, ...]:
    """Return every start of a script that the text contains, in the order in which they appear."""
    if b".py" not in data and b" -m " not in data:
        return ()
    text = CONTINUED.sub(b" ", data)
    with_deepspeed = {name for name, value in ASSIGNMENT.findall(text) if USES_DEEPSPEED.search(value)}
    return tuple(dict.fromkeys(_launched(path, text, with_deepspeed)))


def _launched(path: str, text: bytes, with_deepspeed: Collection[bytes]) -> Iterator[Launched]:
    for line in text.splitlines():
        if line.lstrip().startswith(b"#") and not is_document(path):
            continue
        named = any(name in with_deepspeed for name in VARIABLE.findall(line))
        for found in STARTS.finditer(line):
            module = found["module"].decode("utf-8", "replace").replace(".", "/") + ".py" if found["module"] else ""
            script = module or found["script"].decode("utf-8", "replace")
            yield Launched(path, script, named or USES_DEEPSPEED.search(line) is not None)


def scripts_of(launched: Launched, known: Collection[str]) -> tuple[str, ...]:
    """Return the project's files to which the script's name may refer; those in its own folder come first."""
    beside = normpath(join(dirname(launched.path), launched.script))
    if beside in known:
        return (beside,)
    plain = OUTSIDE.sub("", launched.script)
    return tuple(path for path in known if f"/{path}".endswith(f"/{normpath(plain)}"))
