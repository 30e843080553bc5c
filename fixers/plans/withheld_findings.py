"""Findings of files whose changes are withheld: only those that hold for the file as it stays."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fixers.frame.site import Tree
from fixers.frame.source_fixer import SourceFixer
from fixers.frame.target import Target
from fixers.plans.file_plan import plan_file
from remote.protocol.findings import Finding

CHECK = "scaler-gate"


def without_planned_half(
    findings: Iterable[Finding], withheld: Collection[str], tree: Tree, fixers: Collection[SourceFixer], target: Target
) -> tuple[Finding, ...]:
    """Return the findings without those about float16 that only a withheld change would select.

    The fixer of loss scalers reads a file after the dtypes in it are changed. `withheld`: the files that stay.
    """
    gate = [each for each in fixers if each.name == CHECK]
    known: dict[str, tuple[Finding, ...]] = {}

    def holds(finding: Finding) -> bool:
        path = finding.where.partition(":")[0]
        if finding.check != CHECK or path not in withheld:
            return True
        if path not in known:
            known[path] = plan_file(path, tree.read(path), gate, target).findings
        return finding in known[path]

    return tuple(each for each in findings if holds(each))
