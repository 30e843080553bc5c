"""data-collator: the host runs the project's collator, byte for byte, and no stale copy of it.

What it does
    Compares the file named by `fixers.data-collator.path` (left out: the only Python file whose name says collator)
    with the host's. Where the host's differs, it is replaced by the project's, as the source fixers leave it. Other
    files of that name in the host's project, its environment and on PYTHONPATH are named where their bytes differ.

Why
    The collator is the file that is edited most and copied by hand most. An old one on the host pads labels with the
    wrong value or passes arguments that the processor no longer takes, and nothing says that it is old.

Before
    projects/speech/tree/src/AudioDataCollator.py on the host: edited there in March

After
    the same bytes as src/AudioDataCollator.py here

What it can break
    An edit that exists only on the host leaves the tree. Its bytes are kept for undo.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import base64
import hashlib
import posixpath
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from fixers.change import HostChange, Plan, mended
from fixers.site import Site
from remote.protocol.collator import CollatorLook, Copy
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.values import decode

name = "data-collator"
version = 1
safety = "safe"


def plan(site: Site) -> Plan:
    """The host's collator made the project's, and every other copy named."""
    paths = sorted(site.tree.paths())
    wish = site.wishes.get(name)
    wanted = str(wish.get("path") or "") if isinstance(wish, Mapping) else ""
    path = wanted or collator_of(paths)
    if path not in paths:
        return Plan((_absent(wanted, paths),)) if wanted else Plan()
    if site.host is None or site.project is None:
        return Plan()
    data = site.tree.read(path)
    request = {
        "project": site.project.key,
        "path": path,
        "prefix": site.survey.interpreter.prefix if site.survey else "",
        "environment": dict(site.environment),
    }
    look = decode(CollatorLook, site.host.ask("fix.collator.look", request))
    findings = judge_collator(path, hashlib.sha256(data).hexdigest(), look)
    if not any(finding.severity is Severity.ERROR for finding in findings):
        return Plan(findings)
    told = tuple(mended(finding) if finding.severity is Severity.ERROR else finding for finding in findings)
    return Plan(told, (_replacement(site.project.key, path, data, look),))


def collator_of(paths: Sequence[str]) -> str:
    """The only Python file whose name says that it holds a collator; empty where there is none, or more than one."""
    named = [path for path in paths if path.endswith(".py") and "collator" in posixpath.basename(path).lower()]
    named = [path for path in named if not posixpath.basename(path).startswith("test_")]
    return named[0] if len(named) == 1 else ""


def judge_collator(path: str, wanted: str, look: CollatorLook) -> tuple[Finding, ...]:
    """An error where the host's file has another digest than `wanted`, a warning for each other copy that has."""
    findings: list[Finding] = []
    if look.digest and look.digest != wanted:
        why = "was edited there" if look.edited else "is not the project's"
        findings.append(
            Finding(
                name,
                Severity.ERROR,
                f"{posixpath.basename(path)} on the host {why}",
                where=path,
                hint="pipeline fix --only data-collator",
                exit_code=ExitCode.FIXER,
            )
        )
    findings += [_other_copy(copy) for copy in look.copies if copy.sha256 not in (wanted, "")]
    return tuple(findings)


def _other_copy(copy: Copy) -> Finding:
    reach = "; it is found before the project's" if copy.shadows else ""
    message = f"another {posixpath.basename(copy.path)} on the host has other bytes{reach}"
    return Finding(name, Severity.WARNING, message, where=copy.path, hint=f"rm {copy.path}")


def _absent(wanted: str, paths: Sequence[str]) -> Finding:
    near = get_close_matches(wanted, paths, 1) or [
        p for p in paths if posixpath.basename(p) == posixpath.basename(wanted)
    ]
    hint = f"set fixers.data-collator.path to {near[0]}" if near else "put fixers.data-collator.path right"
    message = f"the project has no {wanted}, which fixers.data-collator.path names"
    return Finding(name, Severity.ERROR, message, where=wanted, hint=hint, exit_code=ExitCode.USAGE)


def _replacement(project: str, path: str, data: bytes, look: CollatorLook) -> HostChange:
    args: dict[str, Any] = {
        "project": project,
        "fixer": name,
        "path": path,
        "expected": look.digest,
        "data": base64.b64encode(data).decode("ascii"),
    }
    return HostChange(name, f"make {path} on the host the project's", "fix.collator.replace", args, undo="fix.undo")
