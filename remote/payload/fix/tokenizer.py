"""Find and check the tokenizer files of a host, and replace a damaged file atomically."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from remote.payload.files.leftovers import new_owned_name, sweep_scratch
from remote.payload.fix.hub_client import ask_hub_client, hub_home
from remote.payload.fix.journal import digest_after_fix, replace_kept
from remote.payload.fix.replaceable import is_replaceable, require_replaceable
from remote.payload.probes.project_python import job_environment
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.payload.tree.lock import open_project
from remote.payload.tree.state import Project, read_manifest
from remote.protocol.exits import ExitCode
from remote.protocol.regular import read_regular
from remote.protocol.tokenizer_files import (
    LARGEST_BYTES,
    MAIN,
    NAMES,
    Digest,
    Fault,
    TokenizerFile,
    digest_from_etag,
    digest_of,
    judge_download,
    judge_file,
    merges_are_pairs,
)
from remote.protocol.tree import Row
from remote.protocol.values import decode, encode

SKIPPED = {".git", "node_modules", "__pycache__", ".halfstep", ".cache", "site-packages", ".venv", "venv"}
MAX_FOLDERS = 20_000
MAX_LOADED = 8
LARGEST_RECORD_BYTES = 64 * 2**10
LOAD_TIMEOUT_S = 120.0
ASK_TIMEOUT_S = 60.0
FETCH_TIMEOUT_S = 1800.0
FIXER = "tokenizer"


def look_at_tokenizers(call: Call) -> Dict[str, Any]:
    """Check every tokenizer file in the project's tree, in the listed folders and in the cache of the listed models."""
    project = open_project(call)
    environment = call.args.get("environment", {})
    candidates = list(_in_folders([project.tree, *(call.path(folder) for folder in call.args.get("folders", []))]))
    for model in call.args.get("models", []):
        candidates += _in_cache(hub_cache(environment), model["repo"], model.get("revision") or "")
    manifest = read_manifest(project)
    rows = manifest.rows if manifest else {}
    cache = hub_cache(environment)
    files = [_inspect(project, rows, *candidate) for candidate in candidates]
    files = [replace(file, replaceable=is_replaceable(file.real, project.tree, cache)) for file in files]
    return {"files": encode(_loaded(call, files)), "cache": cache, "offline": offline(environment)}


def ask_hub(call: Call) -> Dict[str, Any]:
    """Query the hub for a repository's commit and the digests of its tokenizer files.

    An error is returned as a fault.
    """
    request = {"do": "tree", "repo": call.args["repo"], "revision": call.args["revision"], "names": list(NAMES)}
    environment = call.args.get("environment", {})
    return ask_hub_client(call.args["python"], call.payload, request, environment, ASK_TIMEOUT_S)


def replace_tokenizer_file(call: Call) -> Dict[str, Any]:
    """Replace the file with an intact file of the given digest, and keep the previous file for undo.

    Raises Refusal if no such file is available, if the tokenizers library cannot load it, or if the path leads to
    another place than the project's tree and the hub's cache.
    """
    project, name, digest = open_project(call), call.args["name"], decode(Digest, call.args["digest"])
    scratch = project.at(project.layout.scratch)
    sweep_scratch(scratch)
    folder = os.path.join(scratch, new_owned_name("tokenizer"))
    os.makedirs(folder, mode=0o700)
    try:
        data = _fetched(call, name, digest, folder)
        _require_intact(name, data, digest)
        if name == MAIN:
            _require_loads(call, os.path.join(folder, name))
        cache = hub_cache(call.args.get("environment", {}))
        path = require_replaceable(call.path(call.args["path"]), project.tree, cache, call.args, digest_of(data))
        replace_kept(project, FIXER, path, data, call.args["expected"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"path": path, "sha256": digest_of(data).sha256, "bytes": len(data)}


def _fetched(call: Call, name: str, digest: Digest, folder: str) -> bytes:
    """Copy the file into `folder` from an intact copy on this machine, or download the file; return its content."""
    copy = call.args.get("copy", "")
    if copy:
        shutil.copyfile(call.path(copy), os.path.join(folder, name))
    else:
        request = {
            "do": "fetch",
            "repo": call.args["repo"],
            "revision": call.args["revision"],
            "digests": {name: encode(digest)},
            "folder": folder,
        }
        environment = call.args.get("environment", {})
        answer = ask_hub_client(call.args["python"], call.payload, request, environment, FETCH_TIMEOUT_S)
        if "fault" in answer:
            raise _hub_refusal(answer, call.args["repo"])
    return read_regular(os.path.join(folder, name), LARGEST_BYTES)


def _require_intact(name: str, data: bytes, digest: Digest) -> None:
    mismatch = digest.mismatch(digest_of(data))
    fault = judge_download(name, data)
    if mismatch or fault:
        reason = mismatch or (fault.detail if fault else "")
        raise Refusal("torn", f"the new {name} failed verification: {reason}", exit_code=ExitCode.FIXER)


def _require_loads(call: Call, path: str) -> None:
    answer = _load(call, path)
    if answer.get("problem"):
        raise Refusal(
            "does-not-load",
            f"the new {MAIN} does not load with tokenizers {answer.get('version', '')}: {answer['problem']}",
            hint="pip install -U tokenizers transformers",
            exit_code=ExitCode.FIXER,
        )


def _hub_refusal(answer: Mapping[str, Any], repo: str) -> Refusal:
    return Refusal(str(answer["fault"]), f"{repo}: {answer['message']}", where=repo, exit_code=ExitCode.FIXER)


def _load(call: Call, path: str) -> Dict[str, Any]:
    """Load the file with the host's tokenizers library. Return an empty dict if the library is not installed."""
    environment = call.args.get("environment", {})
    request = {"do": "load", "path": path}
    return ask_hub_client(call.args["python"], call.payload, request, environment, LOAD_TIMEOUT_S)


def _loaded(call: Call, files: List[TokenizerFile]) -> List[TokenizerFile]:
    """Return the files with the result of loading each intact tokenizer.json in the project's interpreter."""
    python = call.args.get("python", "")
    wanted = [f.real for f in files if os.path.basename(f.path) == MAIN and f.fault is None and not f.mismatch]
    problems: Dict[str, str] = {}
    for real in wanted[:MAX_LOADED] if python else []:
        try:
            problems[real] = str(_load(call, real).get("problem", ""))
        except Refusal:
            break
    return [replace(file, loads=problems.get(file.real, "")) for file in files]


def _inspect(
    project: Project,
    rows: Mapping[str, Row],
    path: str,
    known: Optional[Digest],
    source: str,
    repo: str,
    revision: str,
) -> TokenizerFile:
    real, name = os.path.realpath(path), os.path.basename(path)
    try:
        data = read_regular(real, LARGEST_BYTES, follow=True)
    except FileNotFoundError:
        return TokenizerFile(path, real, 0, "", Fault("missing", f"a link to {real}, which does not exist"), repo=repo)
    except OSError as error:
        return TokenizerFile(path, real, 0, "", Fault("not-a-tokenizer", f"{real}: {error.strerror}"), repo=repo)
    actual = digest_of(data)
    return TokenizerFile(
        path=path,
        real=real,
        size=len(data),
        sha256=actual.sha256,
        fault=judge_file(name, data) or _unrecorded(project, rows, path, actual.sha256),
        mismatch=known.mismatch(actual) if known else "",
        known_from=source if known else "",
        paired_merges=name == MAIN and merges_are_pairs(data),
        repo=repo,
        revision=revision,
    )


def _unrecorded(project: Project, rows: Mapping[str, Row], path: str, digest: str) -> Optional[Fault]:
    """Return a fault if the fixer wrote this content but was interrupted before it updated the manifest, or None."""
    row = rows.get(os.path.relpath(path, project.tree))
    if row is None or row.installed == digest or digest_after_fix(project, FIXER, path) != digest:
        return None
    return Fault("unrecorded", "repaired, but not yet recorded in the sync manifest")


Place = Tuple[str, Optional[Digest], str, str, str]
"""A file to check: path, known digest or None, source of that digest, repository, revision."""


def _in_folders(roots: List[str]) -> Iterator[Place]:
    seen = 0
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(name for name in folders if name not in SKIPPED)
            seen += 1
            if seen > MAX_FOLDERS:
                return
            if MAIN in names or "tokenizer_config.json" in names:
                for name in NAMES:
                    if name in names:
                        digest, revision = _download_record(folder, name)
                        yield os.path.join(folder, name), digest, "download record", "", revision


def _download_record(folder: str, name: str) -> Tuple[Optional[Digest], str]:
    """Return the digest and the commit of a downloaded file, or (None, "") if there is no record of the download.

    huggingface_hub records commit, ETag and time, one per line.
    """
    record = os.path.join(folder, ".cache", "huggingface", "download", f"{name}.metadata")
    try:
        commit, etag, *_ = read_regular(record, LARGEST_RECORD_BYTES, follow=True).decode("utf-8").splitlines()
    except (OSError, ValueError):
        return None, ""
    return digest_from_etag(etag), commit


def _in_cache(cache: str, repo: str, revision: str) -> Iterator[Place]:
    """Yield the tokenizer files of one cached snapshot. The name of a blob is its digest."""
    snapshot = cached_snapshot(cache, repo, revision)
    for name in NAMES if snapshot else ():
        path = os.path.join(snapshot, name)
        if os.path.lexists(path):
            yield path, _digest_in_links(path), "cache", repo, os.path.basename(snapshot)


def cached_snapshot(cache: str, repo: str, revision: str) -> str:
    """Return the folder of a revision in the cache, or "" if the revision is not cached. `revision` "" means main."""
    model = os.path.join(cache, "models--" + repo.replace("/", "--"))
    commit = _commit_of(model, revision)
    snapshot = os.path.join(model, "snapshots", commit)
    return snapshot if commit and os.path.isdir(snapshot) else ""


def _commit_of(model: str, revision: str) -> str:
    if revision and os.path.isdir(os.path.join(model, "snapshots", revision)):
        return revision
    try:
        return (
            read_regular(os.path.join(model, "refs", revision or "main"), LARGEST_RECORD_BYTES, follow=True)
            .decode("ascii")
            .strip()
        )
    except (OSError, UnicodeDecodeError):
        return ""


def _digest_in_links(path: str) -> Optional[Digest]:
    """Return the digest in the name of the blob to which the link leads, or None."""
    for _ in range(8):
        if not os.path.islink(path):
            break
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
        digest = digest_from_etag(os.path.basename(path))
        if digest is not None:
            return digest
    return None


def hub_cache(environment: Mapping[str, str]) -> str:
    """Return the folder of huggingface_hub's cache, according to the variables in `environment`."""
    env = job_environment(environment)
    return os.path.expanduser(env.get("HF_HUB_CACHE") or os.path.join(hub_home(env), "hub"))


def offline(environment: Mapping[str, str]) -> bool:
    """Return True if HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set."""
    env = job_environment(environment)
    return (env.get("HF_HUB_OFFLINE") or env.get("TRANSFORMERS_OFFLINE") or "").upper() in {"1", "TRUE", "YES", "ON"}
