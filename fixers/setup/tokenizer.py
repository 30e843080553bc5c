"""tokenizer: broken tokenizer files are replaced, whole or not at all; files too new for their reader are told.

What it does
    Looks at tokenizer.json and its companions in the project, in `fixers.tokenizer.folders`, and in the host's hub
    cache. One that is cut off, empty, a Git LFS pointer, a web page, or not what its digest says is copied from a good
    one on the host, or fetched again by the host's own huggingface_hub at one commit. Size and digest must be the
    hub's, the file must load, three fixed strings must survive a round trip; only then is it renamed into place.

Why
    A transfer that was cut leaves a file that ends in the middle of a value, and a clone without Git LFS leaves a
    pointer. Both end in `Exception: expected value at line 1 column 1`, after the model was loaded. A file written by
    tokenizers 0.20 or newer fails in older ones with `untagged enum ModelWrapper`: there the file is well, and the
    reader is what to upgrade.

Before
    tokenizer.json, 32768 bytes: EOF while parsing a string at line 812 column 9

After
    tokenizer.json, 15524095 bytes: the hub's, byte for byte, at the pinned commit

What it can break
    A tokenizer.json that was edited until it is no JSON any more becomes the hub's. One that still parses but differs
    from the hub's is only told, since added tokens look like that.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fixers.frame.change import FileChange, HostChange, Plan
from fixers.frame.findings import error, resolved
from fixers.frame.site import Site, Tree
from fixers.setup.host_hub import HostHub, asking
from fixers.setup.laptop_hub import HubUnavailable, ask_laptop_hub, fetch_on_laptop
from fixers.setup.tokenizer_judgement import NAME, UPGRADE, Complaint, good_copy, judge_files
from remote.host import read_answer
from remote.protocol.findings import Finding
from remote.protocol.tokenizer_files import (
    MAIN,
    NAMES,
    Digest,
    TokenizerFile,
    digest_of,
    judge_file,
    merges_are_pairs,
)
from remote.protocol.values import decode, encode

name = NAME
version = 1
safety = "safe"

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
OURS = "tiny/"
HINTS = {
    "gated": "accept the model's licence on its page, and name HF_TOKEN in `secrets:`",
    "unauthorized": "name HF_TOKEN in `secrets:` of the host or the config",
    "not-found": "put the model's id right in `fixers.tokenizer.repo`; a private one needs HF_TOKEN",
    "no-revision": "put `model.revision` right",
    "offline": "unset HF_HUB_OFFLINE for this once",
    "rate-limited": "run it again in some minutes, or with HF_TOKEN",
    "unreachable": "set HF_ENDPOINT to a mirror that the host can reach",
    "no-library": "pip install huggingface_hub",
}


@dataclass(frozen=True)
class Origin:
    """Where a good copy can be had: a repository at a revision, and a folder of the project that holds one.

    `certain`: the config says that every tokenizer file is that repository's.
    """

    repo: str = ""
    revision: str = ""
    source: str = ""
    certain: bool = False


def plan(site: Site) -> Plan:
    """What is wrong with the tokenizer files here or there, and a replacement for each that one can be had for."""
    origin = origin_of(site)
    if site.host is None or site.project is None:
        return _plan_laptop(site, origin)
    files = _look(site, origin)
    installed = site.survey.interpreter.packages.get("tokenizers", "") if site.survey else ""
    return _plan_host(site, origin, files, judge_files(files, installed))


def origin_of(site: Site) -> Origin:
    """What the config says: `fixers.tokenizer: {repo, revision, source}`, else `model:` where it is a hub's id."""
    setting = site.settings.get(name)
    setting = setting if isinstance(setting, Mapping) else {}
    model = site.config.get("model") or {}
    repo = str(model.get("id") or "")
    if not HUB_ID.fullmatch(repo) or repo.startswith(OURS) or any(p.startswith(repo + "/") for p in site.tree.paths()):
        repo = ""
    revision = str(setting.get("revision") or model.get("revision") or "")
    source = str(setting.get("source") or "").rstrip("/")
    return Origin(str(setting.get("repo") or repo), revision, source, certain=bool(setting.get("repo")))


def belongs_to(site: Site, origin: Origin, file: TokenizerFile, root: str = "") -> tuple[str, str]:
    """The repository and revision that a file came from: by its place in the cache, the config, or the model beside
    it, whose config.json says what it was loaded from."""
    if file.repo:
        return file.repo, file.revision
    folder = posixpath.relpath(posixpath.dirname(file.path), root) if root else posixpath.dirname(file.path)
    beside = "" if origin.certain else named_beside(site.tree, folder.removeprefix("."))
    if beside and beside != origin.repo:
        return beside, file.revision
    return origin.repo, file.revision or origin.revision


def named_beside(tree: Tree, folder: str) -> str:
    """`_name_or_path` of a model's config.json, or of the tokenizer's, where that is a hub's id; empty otherwise."""
    paths = set(tree.paths())
    for path in (posixpath.join(folder, file) for file in ("config.json", "tokenizer_config.json")):
        if path in paths:
            try:
                settings = json.loads(tree.read(path))
            except ValueError:
                continue
            named = settings.get("_name_or_path") or settings.get("name_or_path") if isinstance(settings, dict) else ""
            if isinstance(named, str) and HUB_ID.fullmatch(named) and not named.startswith(OURS):
                return named
    return ""


def _look(site: Site, origin: Origin) -> tuple[TokenizerFile, ...]:
    """The host's files, and those of the laptop's tree that are not there yet, under the names they will have."""
    assert site.host is not None and site.project is not None
    setting = site.settings.get(name)
    folders = list(setting.get("folders", ())) if isinstance(setting, Mapping) else []
    request = {
        **asking(site),
        "folders": folders,
        "models": [{"repo": origin.repo, "revision": origin.revision}] if origin.repo else [],
    }
    answer = site.host.ask("fix.tokenizer.look", request, timeout_s=300.0)
    there = read_answer(tuple[TokenizerFile, ...], site.host, answer["files"])
    root = posixpath.join(site.host.workdir, site.project.tree)
    seen = {file.path for file in there}
    return there + tuple(file for file in laptop_files(site, root) if file.path not in seen)


def laptop_files(site: Site, root: str = "") -> tuple[TokenizerFile, ...]:
    """The tokenizer files of the laptop's tree; `root` is put before their names."""
    paths = set(site.tree.paths())
    folders = {posixpath.dirname(p) for p in paths if posixpath.basename(p) in (MAIN, "tokenizer_config.json")}
    found: list[TokenizerFile] = []
    for path in sorted(p for p in paths if posixpath.dirname(p) in folders and posixpath.basename(p) in NAMES):
        data, full = site.tree.read(path), posixpath.join(root, path)
        digest, file_name = digest_of(data), posixpath.basename(path)
        paired = file_name == MAIN and merges_are_pairs(data)
        found.append(
            TokenizerFile(
                full, full, digest.size, digest.sha256, fault=judge_file(file_name, data), paired_merges=paired
            )
        )
    return tuple(found)


def _plan_host(site: Site, origin: Origin, files: Sequence[TokenizerFile], complaints: Sequence[Complaint]) -> Plan:
    assert site.host is not None and site.project is not None
    findings: list[Finding] = []
    changes: list[FileChange | HostChange] = []
    root = posixpath.join(site.host.workdir, site.project.tree)
    source = posixpath.join(root, origin.source) if origin.source else ""
    hub = HostHub(site)
    for complaint in complaints:
        if not complaint.replace:
            findings.append(complaint.finding)
            continue
        rewrite = _rewrite(site, origin, complaint)
        if rewrite is not None:
            findings.append(resolved(complaint.finding))
            changes.append(rewrite)
            continue
        try:
            args = _replacement(complaint.file, belongs_to(site, origin, complaint.file, root), source, files, hub)
        except HubUnavailable as unavailable:
            findings.append(_unresolved(complaint.finding, unavailable))
            continue
        findings.append(resolved(complaint.finding))
        changes.append(_change(site, complaint, args))
    return Plan(tuple(findings), tuple(changes))


def _rewrite(site: Site, origin: Origin, complaint: Complaint) -> FileChange | None:
    """A file of the tree that is as broken here as there, and has its good copy in the tree, is known on the laptop."""
    assert site.host is not None and site.project is not None
    path = posixpath.relpath(complaint.file.path, posixpath.join(site.host.workdir, site.project.tree))
    files = laptop_files(site)
    here = next((file for file in files if file.path == path and file.sha256 == complaint.file.sha256), None)
    copy = good_copy(here, files, origin.source, "", "") if here is not None and origin.source else None
    return _file_change(site, complaint.finding, path, site.tree.read(copy.path)) if copy is not None else None


def _file_change(site: Site, finding: Finding, path: str, data: bytes) -> FileChange:
    reason = f"{finding.message}; the whole one has {len(data)} bytes"
    return FileChange(path, site.tree.read(path), data, {name: version}, (reason,))


def _change(site: Site, complaint: Complaint, args: Mapping[str, Any]) -> HostChange:
    file = complaint.file
    origin = args.get("copy") or f"{args['repo']} at {str(args['revision'])[:12]}"
    summary = f"replace {file.path} ({file.size} bytes) by the one of {origin} ({args['digest']['size']} bytes)"
    whole = {**asking(site), "fixer": name, "path": file.real, "expected": file.sha256, **args}
    return HostChange(name, summary, "fix.tokenizer.replace", whole, undo="fix.undo")


def _replacement(
    file: TokenizerFile, whose: tuple[str, str], source: str, files: Sequence[TokenizerFile], hub: HostHub
) -> dict[str, Any]:
    """The arguments that say where the good file comes from. Raises HubUnavailable."""
    file_name = posixpath.basename(file.path)
    if file.fault is not None and file.fault.kind == "unrecorded":
        return {"name": file_name, "copy": file.real, "digest": encode(Digest(file.size, file.sha256))}
    repo, revision = whose
    copy = good_copy(file, files, source, repo, revision)
    if copy is not None:
        return {"name": file_name, "copy": copy.real, "digest": encode(Digest(copy.size, copy.sha256))}
    commit, digest = _wanted(repo, file_name, hub.tree(repo, revision) if repo else {})
    if digest.sha256 == file.sha256:
        raise HubUnavailable(f"it is the file that {repo} has, so its reader is too old for it", UPGRADE)
    return {"name": file_name, "repo": repo, "revision": commit, "digest": encode(digest)}


def _wanted(repo: str, file_name: str, answer: Mapping[str, Any]) -> tuple[str, Digest]:
    """The commit, and the digest that the hub has there for the file. Raises HubUnavailable."""
    if not repo:
        raise HubUnavailable("nothing says which model it belongs to", "set fixers.tokenizer.repo in the config")
    if "fault" in answer:
        raise HubUnavailable(f"{repo}: {answer['message']}", HINTS.get(str(answer["fault"]), ""))
    if file_name not in answer["digests"]:
        raise HubUnavailable(f"{repo} has no {file_name} at {answer['commit'][:12]}", "")
    return str(answer["commit"]), decode(Digest, answer["digests"][file_name])


def _unresolved(finding: Finding, unavailable: HubUnavailable) -> Finding:
    message = f"{finding.message}; no good one could be had: {unavailable.message}"
    return error(name, message, finding.where, unavailable.hint or "pipeline explain tokenizer")


def _plan_laptop(site: Site, origin: Origin) -> Plan:
    """The same for the laptop's tree; a replacement is fetched into memory, since a plan writes nothing there."""
    files = laptop_files(site)
    findings: list[Finding] = []
    changes: list[FileChange] = []
    for complaint in judge_files(files, ""):
        file, finding = complaint.file, complaint.finding
        try:
            data = _laptop_replacement(site, origin, file, files)
        except HubUnavailable as unavailable:
            findings.append(_unresolved(finding, unavailable))
            continue
        findings.append(resolved(finding))
        changes.append(_file_change(site, finding, file.path, data))
    return Plan(tuple(findings), tuple(changes))


def _laptop_replacement(site: Site, origin: Origin, file: TokenizerFile, files: Sequence[TokenizerFile]) -> bytes:
    copy = good_copy(file, files, origin.source, "", "") if origin.source else None
    if copy is not None:
        return site.tree.read(copy.path)
    file_name = posixpath.basename(file.path)
    repo, revision = belongs_to(site, origin, file)
    request = {"do": "tree", "repo": repo, "revision": revision, "names": list(NAMES)}
    commit, digest = _wanted(repo, file_name, ask_laptop_hub(request) if repo else {})
    return fetch_on_laptop(repo, commit, file_name, digest)
