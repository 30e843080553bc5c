"""Explain why pip failed, from its output: pip's last lines often only say that there was an error above them."""

from __future__ import annotations

import posixpath
import re
from typing import List, Match, Optional, Tuple

from remote.protocol.dataclass import dataclass
from remote.protocol.text import version_numbers

SHOWN_LINES = 8
LONGEST = 400
LONGEST_LINE = 4000
BEGIN = re.compile(r"\W*\[\d+ lines? of output\]")
END = "[end of output]"
COLLECTING = re.compile(r"\s*Collecting ([^\s(]+)(?: \(from -r (\S+) \(line (\d{1,9})\)\))?")
COPY = re.compile(r"\d+-\d+-")
"""The beginning of the name of a copied requirements file, see `sort_requirements`."""
CLONING = re.compile(
    r"\s*(?:Collecting|Obtaining) (\S+?(?= ?@ git\+| from git\+)|\S*git\+\S+)(?:(?: ?@| from) \S+)?"
    r"(?: \(from -r (\S+) \(line (\d{1,9})\)\))?"
)
NOT_CLONED = re.compile(r"\s*fatal: unable to access '[^']*': (.+)|(?:ssh: )?(Could not resolve hostname .+)")
VERSIONS = re.compile(r"ERROR: Could not find a version that satisfies the requirement (\S+).* \(from versions: (.+)\)")
EXACT = re.compile(r"([A-Za-z0-9][\w.-]*)==(\d[\w.]*)")
NOT_BUILT = re.compile(r"(?:ERROR: )?(?:Failed to build|Failed building wheel for) '?([A-Za-z0-9][\w.-]*)'?")
NO_METADATA = re.compile(r"╰─> ([A-Za-z0-9][\w.-]*)")
CONFLICT = re.compile(r"ERROR: (Cannot install .* because these package versions have conflicting dependencies)\.?")
NO_NAMES = ("See", "No", "installable")
"""Words that NOT_BUILT and NO_METADATA find in place of a package if pip names none."""
GOES_ON = ("Collecting ", "Installing collected ", "Successfully ")
"""Lines after a failed build that pip survived: an old pip installs a package without a wheel."""
NO_VERSION = ("No matching distribution", "requires a different Python")
CAUSES = "The conflict is caused by:"
UNREACHABLE = re.compile(r"WARNING: Retrying .* after connection broken by .*[>)]: (.*?)['\")]*: /")
COMPILER = re.compile(r"(?:.*: )?fatal error: .+")
EXCEPTION = re.compile(r"(?:ERROR|(?:\w+\.)*\w*(?:Error|Exception|Exit)): .+")
ERROR = re.compile(r"(?:error|fatal): .+")
NOTICES = ("[notice]", "WARNING: Location", "Progress ", "Looking in ")
REMOVED = re.compile(r"No module named '(?:distutils|imp)'|fcompiler|CCompiler|has no attribute 'ImpImporter'")
"""Errors of build scripts that use modules which newer releases of Python or setuptools no longer contain."""
PREDATES = "This version predates the Python of the environment"
FAREWELLS = ("note: This ", "hint: See above", "╰─> See above", "See above for")
"""Closing lines that pip prints after any error of the same kind. They state no cause."""
HINTS = {
    "CUDA_HOME environment variable is not set": "install the CUDA toolkit (nvcc) on the host, or remove the package"
    ' from the requirements: attn_implementation="sdpa" needs no package',
    "No module named 'torch'": "this package imports torch while it is built: remove it from the requirements, and"
    " install it on the host by `pip install --no-build-isolation`",
    "fatal error: Python.h": "install the header files of Python on the host, in Debian and Ubuntu the package"
    " python3-dev",
    "gcc' failed: No such file or directory": "install a C compiler on the host, in Debian and Ubuntu the package"
    " build-essential",
}
LOOSEN = (
    "change or remove one of these requirements; `fixers: {environment: {torch: VERSION}}` selects the version of torch"
)
ANOTHER_VERSION = (
    "change this requirement, or create the environment with another Python: `fixers: {environment: {base: python3.N}}`"
)
ANOTHER_SOURCE = (
    "connect the host to the repository's server, or put the package into the project's folder and require it by its"
    " path, `./FOLDER`, in the requirements file"
)
ANOTHER_INDEX = (
    "connect the host to a package index, or install from a folder of wheels:"
    " `fixers: {environment: {find_links: FOLDER, no_index: true}}`"
)


@dataclass(frozen=True)
class PipFailure:
    """Why pip failed: one line, the lines of output to show with it, and what to do, or "".

    `place`: file and line of the requirement, `requirements.txt:3`, or "" if it is unknown.
    """

    reason: str
    lines: Tuple[str, ...] = ()
    hint: str = ""
    place: str = ""


def explain_failure(text: str) -> PipFailure:
    """Return the cause of a failure of pip. For any other command, the cause is the last line of its output."""
    lines = [line.strip()[:LONGEST_LINE] for line in text.splitlines() if line.strip()]
    known = next((hint for words, hint in HINTS.items() if words in text), "")
    found = _conflict(lines) or _build(lines) or _clone(lines) or _unreachable(lines) or _too_old(lines)
    found = found or _summary(lines)
    shown = found.lines or tuple(line.rstrip()[:200] for line in text.splitlines() if _is_shown(line))
    return PipFailure(
        found.reason[:LONGEST], shown[-SHOWN_LINES:] if len(lines) > 1 else (), known or found.hint, found.place
    )


def _is_shown(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith((*NOTICES, *FAREWELLS))


def _conflict(lines: List[str]) -> Optional[PipFailure]:
    """Return which requirements exclude each other."""
    conflict = next(filter(None, map(CONFLICT.match, lines)), None)
    if conflict is None:
        return None
    begin = lines.index(CAUSES) + 1 if CAUSES in lines else len(lines)
    causes = tuple(line for line in lines[begin:] if " requested " in line or " depends on " in line)
    return PipFailure(": ".join(filter(None, (conflict.group(1), "; ".join(causes)))), causes, LOOSEN)


def _build(lines: List[str]) -> Optional[PipFailure]:
    """Return the error in the output of a package's own build, which pip repeats between two marks."""
    begin = max((at + 1 for at, line in enumerate(lines) if BEGIN.fullmatch(line)), default=0)
    if END not in lines[begin:]:
        return None
    end = lines.index(END, begin)
    output, after = lines[begin:end], lines[end + 1 :]
    if not output or any(line.startswith(GOES_ON) for line in after):
        return None
    package, place = _package(lines, begin)
    reason = f"{package} could not be built: {_cause(output)}"
    if REMOVED.search(reason):
        reason += f"{'' if reason.endswith('.') else '.'} {PREDATES}"
    return PipFailure(reason, tuple(line[:200] for line in output), ANOTHER_VERSION, place)


def _clone(lines: List[str]) -> Optional[PipFailure]:
    """Return why a git repository could not be fetched."""
    causes = [found for found in map(NOT_CLONED.match, lines) if found]
    if not causes:
        return None
    cause = str(causes[-1].group(1) or causes[-1].group(2))
    wanted = [found for found in map(CLONING.match, lines) if found]
    if not wanted:
        return PipFailure(cause, hint=ANOTHER_SOURCE)
    reason = f"{cause}, for the requirement {_with_place(wanted[-1])}"
    return PipFailure(reason, hint=ANOTHER_SOURCE, place=_place(wanted[-1]))


def _too_old(lines: List[str]) -> Optional[PipFailure]:
    """Return that the required version is older than every version for this Python."""
    for found in filter(None, map(VERSIONS.match, lines)):
        exact, offered = EXACT.fullmatch(found.group(1)), found.group(2).split(", ")
        oldest = min(filter(None, map(version_numbers, offered)), default=())
        if exact and oldest and version_numbers(exact.group(2)) < oldest:
            name = f"{exact.group(1)} {'.'.join(map(str, oldest))}"
            reason = f"no {found.group(1)} for this Python and machine: the oldest that exists is {name}"
            return PipFailure(reason, hint=ANOTHER_VERSION)
    return None


def _cause(output: List[str]) -> str:
    """Return the first error of a compiler, else the last exception, else the last error, else the last line."""
    compiler = [line for line in output if COMPILER.fullmatch(line)]
    exceptions = [line for line in output if EXCEPTION.fullmatch(line)]
    return (compiler[:1] or exceptions or [line for line in output if ERROR.fullmatch(line)] or output)[-1]


def _package(lines: List[str], begin: int) -> Tuple[str, str]:
    """Return the package that pip names after the failed build, else the last one that it collected before.

    If its requirement is known, return it with its file and line, and its file and line.
    """
    matches = (pattern.match(line) for line in lines[begin:] for pattern in (NOT_BUILT, NO_METADATA))
    named = [found.group(1) for found in matches if found and found.group(1) not in NO_NAMES]
    collected = [found for found in map(COLLECTING.match, lines[:begin]) if found]
    if not named:
        return (_with_place(collected[-1]), _place(collected[-1])) if collected else ("a package", "")
    known = [found for found in collected if re.split(r"[=<>!~\[;@]", found.group(1))[0].lower() == named[-1].lower()]
    return (_with_place(known[-1]), _place(known[-1])) if known else (named[-1], "")


def _with_place(collected: Match[str]) -> str:
    """Return the requirement, with the name of its file and its line: `numpy==1.17.4 (requirements.txt:3)`."""
    place = _place(collected)
    return f"{collected.group(1)} ({place})" if place else str(collected.group(1))


def _place(collected: Match[str]) -> str:
    """Return the name of the requirement's file and its line, or ""."""
    _, file, line = collected.groups()
    return f"{COPY.sub('', posixpath.basename(file), count=1)}:{line}" if file else ""


def _unreachable(lines: List[str]) -> Optional[PipFailure]:
    """Return why no package index answered, if pip has found no version at all."""
    broken = [found.group(1) for found in map(UNREACHABLE.match, lines) if found]
    if not broken or not any("(from versions: none)" in line for line in lines):
        return None
    return PipFailure(f"the package index cannot be reached: {broken[-1]}", hint=ANOTHER_INDEX)


def _summary(lines: List[str]) -> PipFailure:
    """Return the last line that pip marks with ERROR, which summarises the failure, else the last line."""
    errors = [line.partition("ERROR:")[2].strip() for line in lines if line.startswith("ERROR:")]
    last = [line for line in lines if _is_shown(line)]
    reason = (errors or last or lines or ["no output"])[-1]
    return PipFailure(reason, hint=ANOTHER_VERSION if any(words in reason for words in NO_VERSION) else "")
