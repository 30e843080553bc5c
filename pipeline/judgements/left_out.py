"""Find paths of the project that a command reads although they are not sent, because an ignore file excludes them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import accumulate

from pipeline.judgements.laptop_paths import CHECK
from pipeline.judgements.path_text import LONGEST, MOST_WORDS, NO_PATH
from pipeline.judgements.path_uses import PathUse
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.shell import is_plain

OUTPUT = re.compile(
    r"(?:^|[/_.-])(?:out|outputs?|results?|logs?|logging|runs?|exps?|experiments?|checkpoints?|ckpts?|saved?|cache\w*"
    r"|wandb|mlruns|tensorboard|lora|adapters?|plots?|figures?|temp|tmp|resume)(?:$|[/_.-])",
    re.IGNORECASE,
)
"""A path or an option of this form is probably written by the training."""
WRITTEN = re.compile(
    r"(?:^|_)(?:o|save|write|dump|export|store|dest|destination|target|record|report|metrics?|summary|history|pred\w*"
    r"|generated?|new)(?:$|_)",
    re.IGNORECASE,
)
"""An option of this form may name a file that the training writes, although its ending is that of settings."""
SETTINGS = (".yaml", ".yml", ".toml", ".json", ".jsonnet", ".ini", ".cfg", ".conf")
PROGRAMS = (".py", ".sh")
PATTERN = re.compile(r"[*?]")
ANY_LINE = "write a line that begins with !/ and matches this path into .pipelineignore"


@dataclass(frozen=True)
class LeftOut:
    """The project's files: `sent` returns True for a file or folder that is sent, `exists` for one that the laptop has.

    `input_in` returns a file of data or of a model in a folder, the path itself if it is such a file, or "".
    `would_send` returns True if the files of a path would be sent with the given lines added to .pipelineignore, and
    None if too many files have been judged.
    """

    sent: Callable[[str], bool]
    exists: Callable[[str], bool]
    input_in: Callable[[str], str]
    would_send: Callable[[str, tuple[str, ...]], bool | None]

    def path_in(self, text: str) -> str:
        """Return the path of the project in `text` if it exists on the laptop and is not sent, else ""."""
        if not text or len(text) > LONGEST or text[0] in "/~-" or text.count(" ") > MOST_WORDS:
            return ""
        if NO_PATH.search(text) or PATTERN.search(text) or "\0" in text:
            return ""
        path = posixpath.normpath(text)
        if path == "." or path.startswith("..") or not self.exists(path) or self.sent(path):
            return ""
        return path


def left_out_suspects(uses: Iterable[PathUse], project: LeftOut, config: str) -> Iterator[PathUse]:
    """Yield the uses of paths that are certainly read, and of data and model paths that do not look like outputs.

    `config` is the path of the config. In a script, a word without a slash is probably no path.
    """
    for use in uses:
        is_path = "/" in use.path or use.file == config
        if use.certain or (is_path and not _looks_written(use.path) and project.input_in(use.path)):
            yield use


def is_read(path: str, option: str) -> bool:
    """Return True if a command that gives the path to the option, or to none (""), reads it as program or settings."""
    if not option and path.endswith(PROGRAMS):
        return True
    return path.lower().endswith(SETTINGS) and not (
        _looks_written(path) or OUTPUT.search(option) or WRITTEN.search(option)
    )


def _looks_written(path: str) -> bool:
    """Return True for a path of an output. A leading `temp/` or `tmp/` is ignored: it often has downloaded data."""
    first, _, rest = path.partition("/")
    return OUTPUT.search(rest if first in ("temp", "tmp") and rest else path) is not None


def judge_left_out(found: Iterable[PathUse], project: LeftOut, on_host: Container[str]) -> Report:
    """Return a finding for each path that the host lacks: an error if the path is certainly read, else a warning."""
    return Report(tuple(_finding(use, project) for use in dict.fromkeys(found) if use.path not in on_host))


def _finding(use: PathUse, project: LeftOut) -> Finding:
    severity = Severity.ERROR if use.certain else Severity.WARNING
    code = ExitCode.ENVIRONMENT if use.certain else ExitCode.OK
    reads = ", and the command reads it" if use.certain else ""
    message = f"{use.path} is not sent, because .gitignore or .pipelineignore excludes it{reads}"
    hint = lines_hint(use.path, project)
    if not use.model and not _is_code(use.path):
        hint += "; or data: {path: ...} in the config, read from $HALFSTEP_DATA_DIR"
    return Finding(CHECK, severity, message, use.where, hint, code)


def lines_hint(path: str, project: LeftOut) -> str:
    """Return advice: the lines to write into .pipelineignore, so that the path is sent.

    As in git, a file is sent only if its folder is, and the line of a folder sends everything in it. For a settings
    file or a program in an excluded folder, further lines exclude the other files of the folder again. A rule such as
    `*.json` excludes files in a folder that a line includes, unless another line includes everything below the folder.
    """
    part = _excluded_part(path, project)
    if not is_plain(part):  # the line would need escapes, and a shell could run a part of a name that is pasted
        return ANY_LINE
    narrow = [(f"!/{path}",), _only(path, part)] if _is_code(path) and is_plain(path) else []
    for lines in (*narrow, (f"!/{part}",), (f"!/{part}/**",), (f"!/{part}", f"!/{part}/**")):
        sends = project.would_send(path, lines)
        if sends is None:
            return ANY_LINE
        if sends:
            more = f", which sends the whole folder {part}" if part != path and lines not in narrow else ""
            return f"write the {'line' if len(lines) == 1 else 'lines'} {_listed(lines)} into .pipelineignore{more}"
    return "delete the rule that excludes it from the .pipelineignore of a folder on its path"


def _only(path: str, part: str) -> tuple[str, ...]:
    """Return the lines that include a file of the excluded folder `part`, but no other file of it."""
    names = path.removeprefix(part).strip("/").split("/")
    folders = accumulate(names[:-1], "{}/{}".format, initial=part)
    return (*(line for folder in folders for line in (f"!/{folder}", f"/{folder}/*")), f"!/{path}")


def _listed(lines: tuple[str, ...]) -> str:
    return " and ".join(filter(None, (", ".join(lines[:-1]), lines[-1])))


def _is_code(path: str) -> bool:
    return path.lower().endswith((*SETTINGS, *PROGRAMS))


def _excluded_part(path: str, project: LeftOut) -> str:
    """Return the topmost folder on the path from which no file is sent. A rule for a path below it has no effect."""
    parts = path.split("/")
    for end in range(1, len(parts)):
        if not project.sent("/".join(parts[:end])):
            return "/".join(parts[:end])
    return path
