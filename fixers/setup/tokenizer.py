"""tokenizer: broken tokenizer files are replaced; files too new for the installed library are reported.

What it does
    Checks tokenizer.json and the other tokenizer files in the project, `fixers.tokenizer.folders` and the host's hub
    cache. A file that is truncated, empty, a Git LFS pointer, a web page or has the wrong digest is replaced. The
    replacement is a valid copy on the host, or the hub's file at one commit, downloaded by the host's huggingface_hub.
    The new file is moved into place only if its size and digest equal the hub's, it loads, and three fixed strings
    survive a round trip. A file in another folder is only reported, even if a link in the project leads to it.

Why
    An interrupted transfer leaves a truncated file, and a clone without Git LFS leaves a pointer. Both fail with
    `Exception: expected value at line 1 column 1` after the model was loaded. A file written by tokenizers 0.20 or
    newer fails in older versions with `untagged enum ModelWrapper`. Such a file is valid: upgrade the library.

Before
    tokenizer.json, 32768 bytes: EOF while parsing a string at line 812 column 9

After
    tokenizer.json, 15524095 bytes: identical to the hub's at the pinned commit

What it can break
    An edited tokenizer.json that is no longer valid JSON is replaced with the hub's. A valid tokenizer.json that
    differs from the hub's is only reported: a tokenizer with added tokens also differs.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fixers.frame.change import FileChange, HostChange, Plan
from fixers.frame.findings import error, resolved
from fixers.frame.site import Site, Tree
from fixers.frame.text_files import read_text_file
from fixers.registry import version_of
from fixers.setup.host_hub import HostHub, hub_request
from fixers.setup.laptop_hub import HubUnavailable, fetch_on_laptop, tree_on_laptop
from fixers.setup.tokenizer_judgement import NAME, UPGRADE, FaultyFile, good_copy, judge_files
from remote.host import read_field
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding
from remote.protocol.tokenizer_files import (
    MAIN,
    NAMES,
    Digest,
    HubTree,
    TokenizerFile,
    digest_of,
    judge_file,
    merges_are_pairs,
)
from remote.protocol.values import encode

name = NAME
safety = "safe"

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
OURS = "tiny/"
HINTS = {
    "gated": "accept the model's licence on its page, and add HF_TOKEN to `secrets:`",
    "unauthorized": "add HF_TOKEN to `secrets:` of the host or the config",
    "not-found": "correct the model's id in `fixers.tokenizer.repo`; a private model needs HF_TOKEN",
    "no-revision": "correct `model.revision`",
    "offline": "unset HF_HUB_OFFLINE for one run",
    "rate-limited": "run the command again in a few minutes, or set HF_TOKEN",
    "unreachable": "set HF_ENDPOINT to a mirror that the host can reach",
    "no-library": "pip install huggingface_hub",
    "old-client": "pip install -U huggingface_hub",
}


@dataclass(frozen=True)
class Origin:
    """The source of valid tokenizer files: a hub repository at a revision, or a folder of the project.

    `certain`: the config names one repository for every tokenizer file.
    """

    repo: str = ""
    revision: str = ""
    source: str = ""
    certain: bool = False


def plan(site: Site) -> Plan:
    """Report broken tokenizer files, and plan to replace each file for which a valid copy is available."""
    origin = origin_of(site)
    if site.host is None or site.project is None:
        return _plan_laptop(site, origin)
    files = _look(site, origin)
    installed = site.survey.interpreter.packages.get("tokenizers", "") if site.survey else ""
    return _plan_host(site, origin, files, judge_files(files, installed))


def origin_of(site: Site) -> Origin:
    """Return the origin configured in `fixers.tokenizer`, or else the hub id in `model:`."""
    setting = site.settings.get(name)
    setting = setting if isinstance(setting, Mapping) else {}
    model = site.config.get("model") or {}
    repo = str(model.get("id") or "")
    if not HUB_ID.fullmatch(repo) or repo.startswith(OURS) or any(p.startswith(repo + "/") for p in site.tree.paths()):
        repo = ""
    revision = str(setting.get("revision") or model.get("revision") or "")
    source = str(setting.get("source") or "").rstrip("/")
    return Origin(str(setting.get("repo") or repo), revision, source, certain=bool(setting.get("repo")))


def repository_of(site: Site, origin: Origin, file: TokenizerFile, root: str = "") -> tuple[str, str]:
    """Return the repository and revision of a file, from its hub cache entry, a config.json or the run config."""
    if file.repo:
        return file.repo, file.revision
    folder = posixpath.relpath(posixpath.dirname(file.path), root) if root else posixpath.dirname(file.path)
    repo_in_json = "" if origin.certain else repo_in_config_json(site.tree, folder.removeprefix("."))
    if repo_in_json and repo_in_json != origin.repo:
        return repo_in_json, file.revision
    return origin.repo, file.revision or origin.revision


def repo_in_config_json(tree: Tree, folder: str) -> str:
    """Return `_name_or_path` of config.json or tokenizer_config.json if it is a hub id, else an empty string."""
    paths = set(tree.paths())
    for path in (posixpath.join(folder, file) for file in ("config.json", "tokenizer_config.json")):
        if path in paths:
            try:
                settings = json.loads(read_text_file(tree, path))
            except (OSError, ValueError, RecursionError):
                continue
            named = settings.get("_name_or_path") or settings.get("name_or_path") if isinstance(settings, dict) else ""
            if isinstance(named, str) and HUB_ID.fullmatch(named) and not named.startswith(OURS):
                return named
    return ""


def _look(site: Site, origin: Origin) -> tuple[TokenizerFile, ...]:
    """Return the host's tokenizer files and the local files that are not on the host yet, with paths on the host."""
    assert site.host is not None and site.project is not None
    setting = site.settings.get(name)
    folders = list(setting.get("folders", ())) if isinstance(setting, Mapping) else []
    request = {
        **hub_request(site),
        "folders": folders,
        "models": [{"repo": origin.repo, "revision": origin.revision}] if origin.repo else [],
    }
    answer = site.host.ask("fix.tokenizer.look", request, timeout_s=300.0)
    on_host = read_field(tuple[TokenizerFile, ...], site.host, answer, "files")
    root = posixpath.join(site.host.workdir, site.project.tree)
    seen = {file.path for file in on_host}
    return on_host + tuple(file for file in laptop_files(site, root) if file.path not in seen)


def laptop_files(site: Site, root: str = "") -> tuple[TokenizerFile, ...]:
    """Return the tokenizer files in the local tree, with `root` before each path."""
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


def _plan_host(site: Site, origin: Origin, files: Sequence[TokenizerFile], faulty_files: Sequence[FaultyFile]) -> Plan:
    assert site.host is not None and site.project is not None
    findings: list[Finding] = []
    changes: list[FileChange | HostChange] = []
    root = posixpath.join(site.host.workdir, site.project.tree)
    source = posixpath.join(root, origin.source) if origin.source else ""
    hub = HostHub(site)
    for faulty in faulty_files:
        if not faulty.replace:
            findings.append(faulty.finding)
            continue
        if not faulty.file.replaceable:
            findings.append(_elsewhere(faulty))
            continue
        rewrite = _rewrite(site, origin, faulty)
        if rewrite is not None:
            findings.append(resolved(faulty.finding))
            changes.append(rewrite)
            continue
        try:
            args = _replacement(faulty.file, repository_of(site, origin, faulty.file, root), source, files, hub)
        except HubUnavailable as unavailable:
            findings.append(_unresolved(faulty.finding, unavailable))
            continue
        findings.append(resolved(faulty.finding))
        changes.append(_change(site, faulty, args))
    return Plan(tuple(findings), tuple(changes))


def _rewrite(site: Site, origin: Origin, faulty: FaultyFile) -> FileChange | None:
    """Return a local change if the local file equals the faulty one and the tree has a valid copy, else None."""
    assert site.host is not None and site.project is not None
    path = posixpath.relpath(faulty.file.path, posixpath.join(site.host.workdir, site.project.tree))
    files = laptop_files(site)
    local = next((file for file in files if file.path == path and file.sha256 == faulty.file.sha256), None)
    copy = good_copy(local, files, origin.source, "", "") if local is not None and origin.source else None
    return _file_change(site, faulty.finding, path, site.tree.read(copy.path)) if copy is not None else None


def _file_change(site: Site, finding: Finding, path: str, data: bytes) -> FileChange:
    reason = f"{finding.message}; the valid file has {len(data)} bytes"
    return FileChange(path, site.tree.read(path), data, {name: version_of(name)}, (reason,))


def _change(site: Site, faulty: FaultyFile, args: Mapping[str, Any]) -> HostChange:
    file = faulty.file
    origin = args.get("copy") or f"{args['repo']} at {str(args['revision'])[:12]}"
    summary = f"replace {file.path} ({file.size} bytes) with the file from {origin} ({args['digest']['size']} bytes)"
    request = {**hub_request(site), "fixer": name, "path": file.real, "expected": file.sha256, **args}
    return HostChange(name, summary, "fix.tokenizer.replace", request, undo="fix.undo")


def _replacement(
    file: TokenizerFile, repository: tuple[str, str], source: str, files: Sequence[TokenizerFile], hub: HostHub
) -> dict[str, Any]:
    """Return the arguments of the payload operation that select the valid file. Raises HubUnavailable."""
    file_name = posixpath.basename(file.path)
    if file.fault is not None and file.fault.kind == "unrecorded":
        return {"name": file_name, "copy": file.real, "digest": encode(Digest(file.size, file.sha256))}
    repo, revision = repository
    copy = good_copy(file, files, source, repo, revision)
    if copy is not None:
        return {"name": file_name, "copy": copy.real, "digest": encode(Digest(copy.size, copy.sha256))}
    commit, digest = _wanted(repo, file_name, hub.tree(repo, revision) if repo else HubTree())
    if digest.sha256 == file.sha256:
        raise HubUnavailable(
            f"the file is identical to the one in {repo}, so the installed library is too old to read it", UPGRADE
        )
    return {"name": file_name, "repo": repo, "revision": commit, "digest": encode(digest)}


def _wanted(repo: str, file_name: str, tree: HubTree) -> tuple[str, Digest]:
    """Return the commit and the hub's digest of the file. Raises HubUnavailable."""
    if not repo:
        raise HubUnavailable("the model of this tokenizer is unknown", "set fixers.tokenizer.repo in the config")
    if tree.fault:
        raise HubUnavailable(f"{repo}: {tree.message}", HINTS.get(tree.fault, ""))
    if file_name not in tree.digests:
        raise HubUnavailable(f"{repo} has no {file_name} at {tree.commit[:12]}", "")
    return tree.commit, tree.digests[file_name]


def _elsewhere(faulty: FaultyFile) -> Finding:
    why = f"{faulty.file.real} is outside of the project's folder and the hub cache, so it is not replaced"
    return error(name, f"{faulty.finding.message}; {why}", faulty.finding.where, "replace the file by hand")


def _unresolved(finding: Finding, unavailable: HubUnavailable) -> Finding:
    message = f"{finding.message}; no valid copy is available: {unavailable.message}"
    return error(name, message, finding.where, unavailable.hint or "pipeline explain tokenizer")


def _plan_laptop(site: Site, origin: Origin) -> Plan:
    """Plan changes of the local tree. Replacements are downloaded into memory, because planning writes no files."""
    files = laptop_files(site)
    findings: list[Finding] = []
    changes: list[FileChange] = []
    for faulty in judge_files(files, ""):
        file, finding = faulty.file, faulty.finding
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
    repo, revision = repository_of(site, origin, file)
    commit, digest = _wanted(repo, file_name, tree_on_laptop(repo, revision) if repo else HubTree())
    return fetch_on_laptop(repo, commit, file_name, digest)
