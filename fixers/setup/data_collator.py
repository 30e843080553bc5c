"""data-collator: the host's copy of the data collator is identical to the project's.

What it does
    Compares the file in `fixers.data-collator.path` with the host's copy. The default path is the only Python file
    with "collator" in its name. If the host's copy differs, it is replaced with the project's file, including the
    edits of the source fixers. Files listed in `fixers.data-collator.copies` are copies in the project and are
    updated too. Other files with the same name in the host's project, in its environment and on PYTHONPATH are
    reported if their content differs.

Why
    The collator is often edited and copied by hand. A stale copy on the host pads labels with the wrong value, or
    passes arguments that the processor no longer accepts, and no message shows that the copy is stale.

Before
    projects/speech/tree/src/AudioDataCollator.py on the host: edited in March

After
    identical to the local src/AudioDataCollator.py

What it can break
    An edit that exists only on the host, or only in a listed copy, is replaced. The original is kept for undo.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import base64
import hashlib
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from fixers.frame.change import FileChange, HostChange, Plan
from fixers.frame.findings import error, resolved, warning
from fixers.frame.fixed_tree import FixedTree
from fixers.frame.site import Site
from fixers.registry import version_of
from remote.host import read_answer
from remote.protocol.collator import CollatorFacts, Copy
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.shell import is_plain, on_host

name = "data-collator"
safety = "safe"


def plan(site: Site) -> Plan:
    """Plan to replace stale copies of the collator in the project and on the host, and report other copies."""
    paths = sorted(site.tree.paths())
    setting = site.settings.get(name)
    wanted = str(setting.get("path") or "") if isinstance(setting, Mapping) else ""
    path = wanted or collator_of(paths)
    if path not in paths:
        return Plan((_absent(wanted, paths),)) if wanted else Plan()
    copies = list(setting.get("copies", ())) if isinstance(setting, Mapping) else []
    try:
        in_project = _plan_copies(site, path, [str(copy) for copy in copies])
    except OSError as problem:
        message = f"{problem.filename or path} cannot be compared: {problem.strerror}; left unchanged"
        return Plan((error(name, message, path, f"correct fixers.{name}"),))
    return in_project.plus(_plan_host(site, path))


def _plan_copies(site: Site, path: str, copies: Sequence[str]) -> Plan:
    """Plan to replace every listed copy that differs from the file `path`."""
    data, paths = site.tree.read(path), sorted(site.tree.paths())
    plan = Plan(tuple(_absent(copy, paths, "copies") for copy in copies if copy not in paths))
    for copy in (each for each in copies if each in paths and site.tree.read(each) != data):
        message = f"{copy} is a stale copy of {path}"
        finding = resolved(error(name, message, copy))
        change = FileChange(copy, site.tree.read(copy), data, {name: version_of(name)}, (message,))
        plan = plan.plus(Plan((finding,), (change,)))
    return plan


def _plan_host(site: Site, path: str) -> Plan:
    if site.host is None or site.project is None:
        return Plan()
    data = site.tree.read(path)
    request = {
        "project": site.project.key,
        "path": path,
        "prefix": site.survey.interpreter.prefix if site.survey else "",
        "environment": dict(site.environment),
    }
    look = read_answer(CollatorFacts, site.host, site.host.ask("fix.collator.look", request))
    if look.digest == hashlib.sha256(_as_sent(site, path)).hexdigest():
        # The host's copy is unchanged since it was sent, so syncing the tree replaces it.
        look = replace(look, digest="")
    findings = judge_collator(path, hashlib.sha256(data).hexdigest(), look)
    if not any(finding.severity is Severity.ERROR for finding in findings):
        return Plan(findings)
    reported = tuple(resolved(finding) if finding.severity is Severity.ERROR else finding for finding in findings)
    return Plan(reported, (_replacement(site.project.key, path, data, look),))


def _as_sent(site: Site, path: str) -> bytes:
    return site.tree.tree.read(path) if isinstance(site.tree, FixedTree) else site.tree.read(path)


def collator_of(paths: Sequence[str]) -> str:
    """Return the only Python file with "collator" in its name, or an empty string if there is none or several."""
    named = [path for path in paths if path.endswith(".py") and "collator" in posixpath.basename(path).lower()]
    named = [path for path in named if not posixpath.basename(path).startswith("test_")]
    return named[0] if len(named) == 1 else ""


def judge_collator(path: str, wanted: str, look: CollatorFacts) -> tuple[Finding, ...]:
    """Return an error if the SHA-256 of the host's file is not `wanted`, and a warning for each other stale copy."""
    findings: list[Finding] = []
    if look.digest and look.digest != wanted:
        why = "was edited there" if look.edited else "differs from the project's"
        message = f"{posixpath.basename(path)} on the host {why}"
        findings.append(error(name, message, path, "pipeline fix --only data-collator"))
    findings += [_other_copy(copy) for copy in look.copies if copy.sha256 not in (wanted, "")]
    return tuple(findings)


def _other_copy(copy: Copy) -> Finding:
    reach = "; it is imported instead of the project's" if copy.shadows else ""
    message = f"another {posixpath.basename(copy.path)} on the host differs{reach}"
    return warning(name, message, copy.path, on_host("rm -- {}", copy.path))


def _absent(wanted: str, paths: Sequence[str], key: str = "path") -> Finding:
    near = get_close_matches(wanted, paths, 1) or [
        p for p in paths if posixpath.basename(p) == posixpath.basename(wanted)
    ]
    setting = f"fixers.data-collator.{key}"
    hint = f"set {setting} to {near[0]}" if near and is_plain(near[0]) else f"correct {setting}"
    message = f"{setting} names {wanted}, which the project does not have"
    return error(name, message, wanted, hint, exit_code=ExitCode.USAGE)


def _replacement(project: str, path: str, data: bytes, look: CollatorFacts) -> HostChange:
    args: dict[str, Any] = {
        "project": project,
        "fixer": name,
        "path": path,
        "expected": look.digest,
        "data": base64.b64encode(data).decode("ascii"),
    }
    return HostChange(
        name, f"replace {path} on the host with the project's", "fix.collator.replace", args, undo="fix.undo"
    )
