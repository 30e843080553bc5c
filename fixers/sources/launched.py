"""The scripts that shell scripts, Makefiles and documents start, and whether each start uses DeepSpeed."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from posixpath import commonprefix, dirname, join, normpath, splitext

from fixers.sources.lines import in_order, lines_with
from remote.protocol.dataclass import dataclass

DOCUMENTS = (".md", ".rst", ".markdown")
CONTINUED = re.compile(rb"\\[ \t]*\r?\n")
LAUNCHER = rb"(?:python[\d.]*|torchrun|deepspeed|accelerate|torch\.distributed\.\w+|srun|mpirun|uv[ ]run|\$\{?\w+\}?)"
MODULE = rb"(?:-m|--module)[ \t]+(?P<module>(?!torch|accelerate|deepspeed|pip|venv)[A-Za-z_][\w.]*)"
LAUNCHES = re.compile(rb"(?:^|[\s\"'`(;&|])" + LAUNCHER + rb"(?=[\s\"'])")
STARTED = re.compile(rb"(?<![\w.])" + MODULE + rb"|(?<![^\s\"'`=,])(?P<script>[^\s\"'`=,]*\w\.py)\b")
ENDS_COMMAND = re.compile(rb"[#;|]")
LONGEST_GAP = 2000
"""The largest number of bytes between a launcher and the script that it starts."""
STARTED_MODULE = re.compile(rb"(?:^|\s)" + MODULE, re.MULTILINE)
PATH = re.compile(rb"[\w./-]+")
SCRIPT = re.compile(rb".+\.py\b")
USES_DEEPSPEED = re.compile(rb"deepspeed|zero[-_]?[123]|\bds[-_]?config", re.IGNORECASE)
SHOWN = re.compile(
    rb"""^([ \t]*)(?:echo|printf)[ \t]+(?:-\w+[ \t]+)*(?:"[^"\n]*"|'[^'\n]*')(?![^\n]*[|>])""", re.MULTILINE
)
"""Matches a command that a script only prints."""
ASSIGNMENT = re.compile(rb"^[ \t]*(?:export[ \t]+)?(\w+)=((?:\"[^\"]{0,4000}\"|'[^']{0,4000}')?[^\n]*)", re.MULTILINE)
"""Matches an assignment of a shell script. A quoted value may have several lines."""
VARIABLE = re.compile(rb"\$\{?(\w+)")
WHOLE_VARIABLE = re.compile(rb"\$\{?(\w+)\}?")
GIVEN = rb"(?:[ \t]*[=:][ \t]*|\t*[ ][ \t]*)"
"""Matches what separates an option from its value. No character may be matched by two repetitions."""
ONE_MACHINE = re.compile(
    rb"""--standalone\b|\b(?:nnodes|num[_-](?:nodes|machines))["']?""" + GIVEN + rb"""["']?1\b(?![:.])"""
    rb"""|\b(?:node|machine)[_-]rank["']?""" + GIVEN + rb"""["']?0\b""",
    re.IGNORECASE,
)
MORE_MACHINES = re.compile(
    rb"n(?:um)?[_-]?nodes|num[_-]machines|(?:node|machine)[_-]rank|SLURM_|\bsrun\b|\bmpirun\b|hostfile", re.IGNORECASE
)
NUMBER = re.compile(rb"\$\{[^}\n]*\}|\$\w+|\d+(?::\d+)?")
COUNT = re.compile(
    rb"(?:nnodes|num[_-](?:nodes|machines))[\"']?" + GIVEN + rb"[\"']?(" + NUMBER.pattern + rb")", re.IGNORECASE
)
"""Matches a number of machines: a number, a range or a variable."""
DEFAULT = re.compile(rb":?[-=]([^}\n]*)\}")
ENGINES = re.compile(rb"^(?!#(?!SBATCH))[^\n]*(?:SLURM_|\bsrun\b|\bmpirun\b|hostfile)", re.MULTILINE)
"""Matches a program or variable of a scheduler, which may start processes on several machines."""
SCHEDULED = re.compile(rb"\bsrun\b|hostfile")
ON_NODES = re.compile(rb"^#SBATCH|\bsrun")
ONE_NODE = re.compile(rb"[ \t](?:--nodes[ =]|-N[ =]?)1(?![\w:-])")
ON_CARDS = re.compile(rb"\btorchrun\b|\btorch\.distributed\.(?:run|launch)\b|\baccelerate\b")
IN_PROCESSES = re.compile(
    rb"\btorchrun\b|\btorch\.distributed\.(?:run|launch)\b|\baccelerate[ \t]+launch\b"
    rb"|\b(?:srun|mpirun|mpiexec|horovodrun)\b|(?<![\w./-])deepspeed(?=[ \t])"
)
"""Matches a launcher that may start several processes of a script."""
ONE_PROCESS = re.compile(rb"--(?:nproc[_-]per[_-]node|num[_-](?:processes|gpus))[= ][\"']?1\b")
BY_MPI = re.compile(rb"\b(?:mpi|horovod)\w+[ ]")
ONE_BY_MPI = re.compile(rb"-np?[ ]1\b")
ACCELERATE_CONFIG = re.compile(rb"--config[_-]file[ =]+[\"']?([^\s\"']+)")
BF16 = re.compile(
    rb"--(?:\w+[._-])?bf16(?![\w-])(?![ =]+[\"']?(?:false|0|no)\b)|mixed[_-]precision[ =]+[\"']?bf16\b", re.IGNORECASE
)
OPTION = re.compile(rb"(?<!\S)--([A-Za-z][\w-]{0,60})")
TF32 = re.compile(rb"--tf32(?![\w-])(?![ =]+[\"']?(?:false|0|no)\b)", re.IGNORECASE)
UNKNOWN, ONE, SEVERAL = range(3)
LONGEST_VALUE = 4000
MOST_VALUES = 50
"""Limits of the values that are compared, so that the time is linear for any text."""
Values = Mapping[bytes, Sequence[bytes]]
OUTSIDE = re.compile(r"^(?:[^/]*\$[^/]*/|\.{1,2}/|/)+")


@dataclass(frozen=True)
class Launched:
    """One start of a script by a command in the file at `path`.

    `script` is the path that the command contains. `deepspeed`: DeepSpeed starts the script. `machines`: the number of
    machines on which processes start; SEVERAL if it is larger than one, or UNKNOWN. `config`: the config file that
    `accelerate launch` gets, or `any` if the command names no config; empty for other launchers. `processes`: a
    launcher may start several processes. `bf16`: the command selects bfloat16, and no tf32, which fails on a card
    without bfloat16. `options`: the names of the options that the command passes, with underscores.
    """

    path: str
    script: str
    deepspeed: bool
    machines: int = UNKNOWN
    config: str = ""
    processes: bool = False
    bf16: bool = False
    options: tuple[str, ...] = ()


def is_document(path: str) -> bool:
    return path.lower().endswith(DOCUMENTS)


def launched_in(path: str, data: bytes) -> tuple[Launched, ...]:
    """Return every start of a script in the text, in the order of the text."""
    if b".py" not in data and b" -m " not in data and b" --module " not in data:
        return ()
    text = CONTINUED.sub(b" ", data)
    values = _assigned(text)
    with_deepspeed = {name for name, each in values.items() if any(map(USES_DEEPSPEED.search, each))}
    found = _launched(path, text, with_deepspeed, values)
    return tuple(dict.fromkeys(_with_config(each, config) for each in found for config in _values_of(each, values)))


def _assigned(text: bytes) -> Values:
    """Return the values that the text assigns to each variable, up to MOST_VALUES."""
    found: dict[bytes, dict[bytes, None]] = {}
    for name, value in ASSIGNMENT.findall(text):
        given = found.setdefault(name, {})
        if len(given) < MOST_VALUES:
            given[value[:LONGEST_VALUE]] = None
    return {name: tuple(given) for name, given in found.items()}


def _values_of(launched: Launched, values: Values) -> list[str]:
    """Return the values that the text assigns to the variable which names the config, else the config as written."""
    variable = WHOLE_VARIABLE.fullmatch(launched.config.encode())
    given = values.get(variable[1], ()) if variable is not None else ()
    return [value.decode("utf-8", "replace").strip().strip("\"'") for value in given] or [launched.config]


def _with_config(launched: Launched, config: str) -> Launched:
    deepspeed = launched.deepspeed or USES_DEEPSPEED.search(config.encode()) is not None
    return replace(launched, config=config, deepspeed=deepspeed)


def _launched(path: str, text: bytes, with_deepspeed: Collection[bytes], values: Values) -> Iterator[Launched]:
    scheduled = None if is_document(path) else _scheduled(text)
    for line in SHOWN.sub(rb"\1", text).splitlines():
        if line.lstrip().startswith(b"#") and not is_document(path):
            continue
        starts = list(_starts(line))
        if not starts:
            continue
        named = any(name in with_deepspeed for name in VARIABLE.findall(ACCELERATE_CONFIG.sub(b"", line)))
        deepspeed = named or USES_DEEPSPEED.search(line) is not None
        machines, config = _machines_of(line, scheduled, values), _config_of(line)
        processes = machines == SEVERAL or _starts_processes(line, values)
        bf16 = BF16.search(line) is not None and not TF32.search(line)
        options = tuple(sorted({each.decode().replace("-", "_").lower() for each in OPTION.findall(line)}))
        for found in starts:
            module = found["module"].decode("utf-8", "replace").replace(".", "/") + ".py" if found["module"] else ""
            script = module or found["script"].decode("utf-8", "replace")
            yield Launched(path, script, deepspeed, machines, config, processes, bf16, options)


def _starts(line: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the modules and scripts that a launcher starts. One launcher starts one of them. Takes linear time."""
    named = list(STARTED.finditer(line))
    launchers = list(LAUNCHES.finditer(line)) if named else []
    ends = [launcher.end() for launcher in launchers]
    end = 0
    for found in named:
        last = bisect_right(ends, found.start()) - 1
        if last < 0 or launchers[last].start() < end or found.start() - ends[last] > LONGEST_GAP:
            continue
        if not ENDS_COMMAND.search(line, ends[last], found.start()):
            yield found
            end = found.end()


def _scheduled(text: bytes) -> int | None:
    """Return the number of machines on which a scheduler starts the commands, or None without a scheduler."""
    lines = [found[0] for found in ENGINES.finditer(text)]
    if not any(SCHEDULED.search(each) for each in lines):
        return UNKNOWN if lines else None
    return ONE if in_order(text, ON_NODES, ONE_NODE) else SEVERAL


def _machines_of(line: bytes, scheduled: int | None, values: Values) -> int:
    """Return the number of machines of a command, in a script with this number of scheduled machines."""
    given = _with_values(line, values)
    known: dict[bytes, bool] = {}
    if any(_is_several(each, values, known) for each in COUNT.findall(given)):
        return SEVERAL
    if scheduled is not None:
        return scheduled
    may_be_more = MORE_MACHINES.search(ONE_MACHINE.sub(b"", given))
    return ONE if ON_CARDS.search(line) and not may_be_more else UNKNOWN


def _starts_processes(line: bytes, values: Values) -> bool:
    given = _with_values(line, values)
    one = ONE_PROCESS.search(given) is not None or in_order(given, BY_MPI, ONE_BY_MPI)
    return IN_PROCESSES.search(given) is not None and not one


def _with_values(line: bytes, values: Values) -> bytes:
    """Return the line, followed by the values of the variables in it."""
    used = dict.fromkeys(VARIABLE.findall(line))
    return b" ".join((line, *[value for name in used for value in values.get(name, ())][:MOST_VALUES]))


def _is_several(number: bytes, values: Values, known: dict[bytes, bool]) -> bool:
    """Return True if the number of machines may be larger than one.

    A variable has the value that the script assigns, or its default. A variable with neither, and the length of an
    array (`${#HOSTS[@]}`), may be larger than one. So may one that depends on itself, or on too many others. `known`:
    the variables that were judged, with True for those that are being judged.
    """
    variable = VARIABLE.match(number)
    if variable is None:
        return not number[:1].isdigit() or number.rpartition(b":")[2].lstrip(b"0") not in (b"", b"1")
    name = variable[1]
    if name in known or len(known) >= MOST_VALUES:
        return known.get(name, True)
    if name in values:
        known[name] = True
    given = values.get(name) or DEFAULT.findall(number)
    numbers = [NUMBER.match(each.lstrip(b" \t\"'")) for each in given]
    several = not given or any(each is None or _is_several(each[0], values, known) for each in numbers)
    if name in values:
        known[name] = several
    return several


def _config_of(line: bytes) -> str:
    """Return the config in an `accelerate launch` line, `any` for the default config, or empty for other launchers."""
    if b"accelerate" not in line:
        return ""
    given = ACCELERATE_CONFIG.search(line)
    return given[1].decode("utf-8", "replace") if given else "any"


def scripts_in(data: bytes) -> tuple[str, ...]:
    """Return the scripts that a text names, in commands or elsewhere, as written. Modules after `-m` become paths.

    A module may also be a package, which starts with its `__main__.py`.
    """
    paths = PATH.findall(lines_with(data, (b".py",)))
    found = (SCRIPT.match(each) for each in paths if b".py" in each)
    named = [each[0].decode() for each in found if each]
    started = [each.decode().replace(".", "/") for each in STARTED_MODULE.findall(data)]
    named += [f"{each}{end}" for each in started for end in (".py", "/__main__.py")]
    return tuple(dict.fromkeys(named))


def scripts_of(launched: Launched, known: Collection[str]) -> tuple[str, ...]:
    """Return the files that the start may mean: those of `files_named`, or else the `__main__.py` of this package."""
    package = f"{splitext(launched.script)[0]}/__main__.py"
    return files_named(launched.script, launched.path, known) or files_named(package, launched.path, known)


def files_named(script: str, path: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the known files that `script`, as written in the file at `path`, may name.

    This is the file at this path, relative to the folder of the text. Without such a file, these are the files whose
    paths end in the script's path. Subprojects may have scripts of equal names: unless one of the files is at this path
    relative to the project, only those count that share the most folders with the text.
    """
    beside = normpath(join(dirname(path), script))
    if beside in known:
        return (beside,)
    plain = normpath(OUTSIDE.sub("", script))
    named = [each for each in known if f"/{each}".endswith(f"/{plain}")]
    if normpath(script) in named:
        return tuple(named)
    shared = {each: len(commonprefix([each.split("/"), path.split("/")])) for each in named}
    most = max(shared.values(), default=0)
    return tuple(each for each in named if shared[each] == most)
