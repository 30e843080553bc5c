"""The limits of an upload of code: the size and the number of its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from remote.project.included_files import Walk, shown
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.quantities import count
from remote.protocol.quantities import size as quantity
from remote.protocol.tree import LARGE_BYTES

SHOWN = 5


@dataclass(frozen=True)
class Limits:
    """The limits of an upload of code. An untracked file of `large_bytes` or more causes a warning.

    `python_bytes` is the size of all Python files: the fixers keep them in memory.
    """

    file_bytes: int = 100 * 10**6
    large_bytes: int = LARGE_BYTES
    total_bytes: int = 2 * 10**9
    files: int = 20_000
    python_bytes: int = 256 * 10**6


def judge_limits(walk: Walk, limits: Limits) -> Iterable[Finding]:
    """Yield a finding for each limit that the project exceeds."""
    sizes = {path: status.st_size for path, status in walk.files.items()}
    big = {path: size for path, size in sizes.items() if size > limits.file_bytes}
    if big:
        yield _too_large(
            f"{count(len(big), 'file')} over {quantity(limits.file_bytes)}: {_top(big)}",
            "add them to .pipelineignore; if the job needs them, set `data: {path: ...}` in the config",
        )
    others = {path: size for path, size in sizes.items() if path not in big}
    total = sum(others.values())
    if total > limits.total_bytes:
        message = f"{quantity(total)} in total, over {quantity(limits.total_bytes)}; most of it in {_folders(others)}"
        yield _too_large(message, "add files that are not code to .pipelineignore")
    if message := too_much_python(others, limits):
        yield _too_large(message, "add folders that the training does not need to .pipelineignore")
    if len(sizes) > limits.files or walk.cut:
        counts = Counter(_upper_folder(path) for path in sizes)
        total_count = f"{count(len(sizes), 'file')}{' or more' if walk.cut else ''}"
        largest = ", ".join(f"{shown(path)} ({count(files, 'file')})" for path, files in counts.most_common(SHOWN))
        yield _too_large(
            f"{total_count}, over {limits.files:,}; most of them in {largest}",
            "add files that are not code to .pipelineignore",
        )


def too_much_python(sizes: Mapping[str, int], limits: Limits) -> str:
    """Return what is wrong with the size of all Python files, or ""."""
    python = {path: size for path, size in sizes.items() if path.endswith(".py")}
    if sum(python.values()) <= limits.python_bytes:
        return ""
    total, most = quantity(sum(python.values())), quantity(limits.python_bytes)
    return f"{total} of Python files, over {most}; most of it in {_folders(python)}"


def judge_untracked(walk: Walk, limits: Limits) -> Iterable[Finding]:
    """Warn about large files that git does not track. Most of them are results of experiments."""
    sizes = {path: status.st_size for path, status in walk.files.items() if path not in walk.tracked}
    large = {path: size for path, size in sizes.items() if limits.large_bytes <= size <= limits.file_bytes}
    if large:
        count_text = f"{count(len(large), 'file')} of {quantity(limits.large_bytes)} or more"
        yield Finding(
            "large-untracked",
            Severity.WARNING,
            f"{count_text} that git does not track: {_top(large)}",
            where=shown(max(large, key=large.__getitem__)),
            hint="if the job does not need them, add them to .pipelineignore; if it does, keep them, or send a folder "
            "of data by `data: {path: ...}` in the config",
        )


def _folders(sizes: Mapping[str, int]) -> str:
    """Return the largest folders with the sum of these sizes."""
    folders: Counter[str] = Counter()
    for path, size in sizes.items():
        folders[_upper_folder(path)] += size
    return _top(folders)


def _upper_folder(path: str) -> str:
    parts = PurePosixPath(path).parts
    return "/".join(parts[: min(2, len(parts) - 1)]) + "/" if len(parts) > 1 else path


def _top(sizes: dict[str, int] | Counter[str]) -> str:
    return ", ".join(f"{shown(path)} ({quantity(size)})" for path, size in Counter(sizes).most_common(SHOWN))


def _too_large(message: str, hint: str) -> Finding:
    return Finding("too-large", Severity.ERROR, message, hint=hint, exit_code=ExitCode.SYNC)
