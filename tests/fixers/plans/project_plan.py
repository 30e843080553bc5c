"""Plan the fixes of a small project, and read the plan."""

from pathlib import Path

from fixers.frame.change import FileChange, Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers


def planned(root: Path, files: dict[str, str]) -> Plan:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    return plan_offers(Site(DiskTree(root), gpu=TITAN_RTX))


def changed(plan: Plan) -> dict[str, str]:
    return {each.path: each.after.decode() for each in plan.changes if isinstance(each, FileChange)}


def warned(plan: Plan) -> str:
    return "\n".join(f"{each.where} {each.message}" for each in plan.findings)
