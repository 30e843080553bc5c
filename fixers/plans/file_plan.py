"""Plan one file: fixers run in order, in memory. The result is parsed and planned again as a check."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from fixers.frame.change import FileChange, HostChange, Plan, SkippedPlace
from fixers.frame.disk_tree import LARGEST_SOURCE_BYTES, TOO_LARGE
from fixers.frame.findings import error, warning
from fixers.frame.scope import judge_scope
from fixers.frame.site import Tree
from fixers.frame.source_fixer import Rewrite, SourceFixer
from fixers.frame.target import Target
from fixers.plans.inference_code import FIXERS, ONLY_INFERENCE
from fixers.plans.uncalled import NOT_CALLED, without_functions
from fixers.plans.untaken_branches import without_branches
from fixers.registry import version_of
from fixers.sources.languages import Unchecked, parse_again
from fixers.sources.lines import holds_any, too_long_line
from fixers.sources.option_defaults import UNUSED_DEFAULT
from fixers.sources.source import Source
from fixers.sources.splice import EditRefused, line_of, splice
from fixers.sources.unparsable import Unparsable
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding
from remote.protocol.tokenizer_files import LFS_POINTER

FETCH_LFS = "fetch the file with git-lfs, if the repository is yours"
LFS_MESSAGE = "this is a Git LFS pointer, not the file itself; it was not checked"
TOO_DEEP = "its values refer to each other in chains too long to follow"
LISTED_HINT = "if it is data, list it in .pipelineignore"
PRECISION_WORDS = (b"bfloat16", b"bf16", b"flash_att", b"flash-att")
"""A file that is not part of the training is listed as unchanged only if it contains one of these words."""


@dataclass(frozen=True)
class FileOutcome:
    """The change, the findings and the skipped places for one file."""

    change: FileChange | None = None
    findings: tuple[Finding, ...] = ()
    skipped: tuple[SkippedPlace, ...] = ()


class Refused(Exception):
    """A fixer failed on this file, so the file is not changed."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def plan_file(path: str, data: bytes, fixers: Sequence[SourceFixer], target: Target) -> FileOutcome:
    """Plan all fixers for one file. The result must parse, and a second pass must change nothing."""
    if data.startswith(LFS_POINTER) and any(fixer.matches(path) for fixer in fixers):
        return FileOutcome(
            None,
            (warning("lfs-pointer", LFS_MESSAGE, path, FETCH_LFS),),
        )
    if not may_apply(path, data, fixers):
        return FileOutcome()
    if is_data := judge_size(path, data):
        return FileOutcome(None, (is_data,))
    if outside := judge_scope(path, data, target):
        names_precision = holds_any(data, PRECISION_WORDS)
        return FileOutcome(skipped=(SkippedPlace(path, outside),) if names_precision else ())
    try:
        source = Source(path, data)
        target = target.at(path, data)
        fixed, change, findings, left = _compose(source, fixers, target)
        findings += tuple(_unparsable(path, part.message, part.line) for part in source.unread)
        if change is not None:
            _require_settled(fixed, fixers, target)
    except Unparsable as unread:
        return FileOutcome(None, (_unparsable(path, unread.message, unread.line),))
    except RecursionError:
        return FileOutcome(None, (_unparsable(path, TOO_DEEP, 1),))
    except Refused as refused:
        return FileOutcome(None, (refused.finding,))
    return FileOutcome(change, findings, left)


def plan_again(
    tree: Tree, functions: Collection[str], reason: str, fixers: Sequence[SourceFixer], target: Target, plan: Plan
) -> Plan:
    """Return the plan with new changes of the files of these functions, and the places that stay for this reason."""
    paths = {each.rpartition(":")[0] for each in functions}
    kept: list[FileChange | HostChange] = []
    skipped: list[SkippedPlace] = []
    for change in plan.changes:
        if not isinstance(change, FileChange) or change.path not in paths:
            kept.append(change)
            continue
        outcome = plan_file(change.path, tree.read(change.path), fixers, target)
        kept += [outcome.change] if outcome.change else []
        skipped += [each for each in outcome.skipped if each.reason == reason]
    return replace(plan, changes=tuple(kept), skipped=(*plan.skipped, *skipped))


def judge_size(path: str, data: bytes) -> Finding | None:
    """Return a finding for a file that is data rather than a source.

    Long lines are expected in notebooks, whose outputs may contain images. A cell with such a line is not read.
    """
    if len(data) > LARGEST_SOURCE_BYTES:
        return judge_too_large(path, f"{len(data)} bytes: {TOO_LARGE}")
    line, longest = (0, 0) if path.endswith(".ipynb") else too_long_line(data)
    if not line:
        return None
    message = f"a line of {longest} bytes: too long for a source file; left unchanged"
    return warning("unparsable-source", message, f"{path}:{line}", LISTED_HINT)


def judge_too_large(path: str, message: str) -> Finding:
    """Return the finding for a file that is too large to be read."""
    return _unparsable(path, message, 1)


def may_apply(path: str, data: bytes, fixers: Sequence[SourceFixer]) -> bool:
    """Return True if a fixer reads files of this name and the file contains one of its needles."""
    return any(fixer.matches(path) and holds_any(data, fixer.needles) for fixer in fixers)


def _compose(
    source: Source, fixers: Sequence[SourceFixer], target: Target
) -> tuple[Source, FileChange | None, tuple[Finding, ...], tuple[SkippedPlace, ...]]:
    before = source.data
    findings: list[Finding] = []
    left: dict[SkippedPlace, None] = {}
    acted: dict[str, int] = {}
    why: list[str] = []
    for fixer in fixers:
        if not may_apply(source.path, source.data, (fixer,)):
            continue
        rewrite, fixed = _rewrite(fixer, source, target)
        findings += rewrite.findings
        left |= dict.fromkeys(rewrite.skipped)
        if fixed.data != source.data:
            acted[fixer.name] = version_of(fixer.name)
            lines = ((line_of(source.data, edit.start), edit.why) for edit in rewrite.edits)
            why += [f"line {line}: {reason} ({fixer.name})" for line, reason in sorted(lines)]
            source = fixed
    if source.data == before:
        return source, None, tuple(findings), tuple(left)
    return source, FileChange(source.path, before, source.data, acted, tuple(why)), tuple(findings), tuple(left)


def _rewrite(fixer: SourceFixer, source: Source, target: Target) -> tuple[Rewrite, Source]:
    """Return the fixer's rewrite and the rewritten file. Raises Refused if the rewritten file does not parse."""
    try:
        facts = target.code_facts
        rewrite = without_functions(fixer.rewrite(source, target), source, facts.uncalled, NOT_CALLED)
        rewrite = without_branches(rewrite, source, facts.untaken)
        if fixer.name in FIXERS:
            rewrite = without_functions(rewrite, source, facts.only_inference, ONLY_INFERENCE)
            rewrite = without_functions(rewrite, source, facts.unused_defaults, UNUSED_DEFAULT)
        fixed = Source(source.path, splice(source.data, rewrite.edits)) if rewrite.edits else source
    except EditRefused as refused:
        raise Refused(error(fixer.name, refused.message, source.where(refused.offset))) from None
    if rewrite.edits:
        try:
            parse_again(fixed)
        except Unparsable as unread:
            message = f"the rewritten file would not parse ({unread.message}); left unchanged"
            raise Refused(error(fixer.name, message, f"{source.path}:{unread.line}")) from None
        except Unchecked:
            raise Refused(error(fixer.name, "no parser can check the rewritten file", source.path)) from None
        if len(fixed.unread) > len(source.unread):
            part = fixed.unread[0]
            message = f"after the rewrite {part.message}; left unchanged"
            raise Refused(error(fixer.name, message, f"{source.path}:{part.line}"))
    return rewrite, fixed


def _require_settled(fixed: Source, fixers: Sequence[SourceFixer], target: Target) -> None:
    _, again, _, _ = _compose(fixed, fixers, target)
    if again is not None:
        names = ", ".join(again.fixers)
        message = f"a second pass would change the file again ({again.why[0]}); left unchanged"
        raise Refused(error(names, message, fixed.path))


def _unparsable(path: str, message: str, line: int) -> Finding:
    """Return an error for a Python module, and a warning for a notebook or config, which the training may not read."""
    hint = "correct the file, or list it in .pipelineignore"
    report = error if path.endswith(".py") else warning
    return report("unparsable-source", f"{message}; left unchanged", f"{path}:{line}", hint)
