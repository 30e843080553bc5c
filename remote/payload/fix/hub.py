"""Requests to the model hub: `python payload.pyz hub` reads a JSON request from stdin and prints a JSON answer.

Runs in the project's interpreter with its huggingface_hub, so that HF_ENDPOINT, HF_HUB_OFFLINE and proxies apply as in
training. hub_client.py selects the token, and keeps the client away from other files of the user.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import resource
import sys
from functools import partial
from typing import Any, Callable, Dict, List

from remote.protocol.regular import read_regular
from remote.protocol.tokenizer_files import LARGEST_BYTES, ROUND_TRIPS, Digest, digest_of, judge_download
from remote.protocol.values import encode

ATTEMPTS = 3
SAFE_CLIENT = (0, 23)
"""The first version of huggingface_hub that stores no download under a name that a server chooses."""
MEMORY_BYTES = {"tree": 2**30}
"""The limit of the address space by kind of request: a compressed answer of a hostile server could fill the memory."""
OTHER_FILES_BYTES = 2**20
"""The size of a download may exceed the announced size by this number, because the client writes records too."""
MEMORY_OF_FILES_BYTES = 4 * 2**30
MAX_ANSWER = 2**20
"""The maximum number of characters of an answer. A hostile server chooses the texts in it."""


class HubFault(Exception):
    """A request to the hub failed; `kind` is one word for the reason."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def main() -> int:
    """Print the answer, or the fault, to stdout; the output of libraries goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    _limit(resource.RLIMIT_AS, MEMORY_BYTES.get(request["do"], MEMORY_OF_FILES_BYTES))
    try:
        answer = REQUESTS[request["do"]](request)
    except HubFault as fault:
        answer = {"fault": fault.kind, "message": str(fault)}
    text = json.dumps(answer)
    if len(text) > MAX_ANSWER:
        text = json.dumps(
            {"fault": "server", "message": f"the hub sent names or digests of over {MAX_ANSWER} characters"}
        )
    answers.write(text)
    answers.flush()
    return 0


def _limit(kind: int, size_bytes: int) -> None:
    """Limit a resource of this process, where the system supports that."""
    with contextlib.suppress(ValueError, OSError):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (size_bytes if hard < 0 else min(size_bytes, hard), hard))


def tree(request: Dict[str, Any]) -> Dict[str, Any]:
    """Return the commit of a revision, and the digests of the named files that the repository has."""
    return _query_hub(lambda hub: _tree(hub.HfApi(token=request.get("token")), request))


def _tree(api: Any, request: Dict[str, Any]) -> Dict[str, Any]:
    repo, names = request["repo"], request["names"]
    commit = api.model_info(repo, revision=request.get("revision") or None).sha
    digests: Dict[str, Any] = {}
    for entry in api.list_repo_tree(repo, revision=commit):
        if getattr(entry, "size", None) is not None and entry.path in names:
            lfs = getattr(entry, "lfs", None)
            digest = Digest(lfs.size, sha256=lfs.sha256) if lfs else Digest(entry.size, git_sha1=entry.blob_id)
            digests[entry.path] = encode(digest)
    return {"commit": commit, "digests": digests}


def fetch(request: Dict[str, Any]) -> Dict[str, Any]:
    """Download each file of `digests` into `folder`, verify its digest, and judge its content. Raises HubFault.

    Nothing is downloaded if a file has more than LARGEST_BYTES bytes.
    """
    digests = {name: Digest(**digest) for name, digest in request["digests"].items()}
    for name, digest in digests.items():
        if not 0 <= digest.size <= LARGEST_BYTES:
            message = f"{name} has {digest.size} bytes; a file of a tokenizer has at most {LARGEST_BYTES}"
            raise HubFault("not-a-tokenizer", message)
    _limit(resource.RLIMIT_FSIZE, max(digest.size for digest in digests.values()) + OTHER_FILES_BYTES)
    for name, digest in digests.items():
        _query_hub(partial(_fetch_one, request, name, digest))
    return {"fetched": sorted(digests)}


def _require_safe_client(request: Dict[str, Any], hub: Any) -> None:
    """Raise HubFault if a server that only the config names could choose where the client writes, by an ETag."""
    version = tuple(int(part) for part in re.findall(r"\d+", str(hub.__version__))[:2])
    if request.get("redirected") and version < SAFE_CLIENT:
        message = f"huggingface_hub {hub.__version__} lets a server choose where a file is written; update it"
        raise HubFault("old-client", message)


def _fetch_one(request: Dict[str, Any], name: str, digest: Digest, hub: Any) -> Dict[str, Any]:
    """Download one file from the start, up to three times, until its digest matches."""
    problem = ""
    _require_safe_client(request, hub)
    for _ in range(ATTEMPTS):
        try:
            path = hub.hf_hub_download(
                request["repo"],
                name,
                revision=request["revision"],
                local_dir=request["folder"],
                force_download=True,
                token=request.get("token"),
            )
        except Exception as error:
            if _kind_of(error) != "cut":
                raise
            problem = _describe(error)
            continue
        problem = _problem_of(name, path, digest)
        if not problem:
            return {}
        os.unlink(path)
    raise HubFault("torn", f"{name}: {ATTEMPTS} downloads failed verification: {problem}")


def _problem_of(name: str, path: str, digest: Digest) -> str:
    """Return why a downloaded file is not accepted, or ""."""
    try:
        data = read_regular(path, LARGEST_BYTES, follow=True)
    except OSError as error:
        return error.strerror or str(error)
    mismatch, fault = digest.mismatch(digest_of(data)), judge_download(name, data)
    return "; it is ".join(filter(None, (mismatch, fault.detail if fault else "")))


def load(request: Dict[str, Any]) -> Dict[str, Any]:
    """Load the file with the tokenizers library, encode and decode fixed strings, and return the problem or ""."""
    try:
        tokenizers = importlib.import_module("tokenizers")
    except ImportError as error:
        raise HubFault("no-library", f"tokenizers cannot be imported: {error}") from None
    try:
        tokenizer = tokenizers.Tokenizer.from_file(request["path"])
    except Exception as error:  # noqa: BLE001 - the library raises Exception itself
        return {"problem": str(error), "version": tokenizers.__version__}
    return {"problem": _round_trip_problem(tokenizer), "version": tokenizers.__version__}


def _round_trip_problem(tokenizer: Any) -> str:
    """Return how a second round trip of encoding and decoding changes a text, or "" if it changes no text.

    A normaliser may change the text in the first round trip, which is no fault.
    """
    for text in ROUND_TRIPS:
        once = tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids)
        twice = tokenizer.decode(tokenizer.encode(once, add_special_tokens=False).ids)
        if once != twice:
            return f"{text!r} becomes {once!r} when encoded and decoded, and {twice!r} after a second time"
    return "" if tokenizer.get_vocab_size() else "it has no vocabulary"


REQUESTS: Dict[str, Callable[[Dict[str, Any]], Dict[str, Any]]] = {"tree": tree, "fetch": fetch, "load": load}


def _query_hub(query: Callable[[Any], Dict[str, Any]]) -> Dict[str, Any]:
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise HubFault("no-library", f"huggingface_hub cannot be imported: {error}") from None
    try:
        return query(hub)
    except HubFault:
        raise
    except Exception as error:  # noqa: BLE001 - httpx, requests and the hub's own errors differ by version
        raise HubFault(_kind_of(error), _describe(error)) from None


_KINDS = {
    "GatedRepoError": "gated",
    "RepositoryNotFoundError": "not-found",
    "RevisionNotFoundError": "no-revision",
    "EntryNotFoundError": "no-file",
    "RemoteEntryNotFoundError": "no-file",
    "OfflineModeIsEnabled": "offline",
    "LocalEntryNotFoundError": "unreachable",
    "FileMetadataError": "not-a-hub",
}
_CUT = {"RemoteProtocolError", "IncompleteRead", "ChunkedEncodingError", "ReadError", "ProtocolError"}
_STATUS = {401: "unauthorized", 403: "gated", 404: "not-found", 429: "rate-limited"}


def _kind_of(error: BaseException) -> str:
    """Return one word that classifies an error of the hub's client, whichever HTTP library the client uses."""
    chain = _chain(error)
    for link in chain:
        status = getattr(getattr(link, "response", None), "status_code", None)
        if status == 429:
            return "rate-limited"
    for link in chain:
        named = next((_KINDS[kind.__name__] for kind in type(link).__mro__ if kind.__name__ in _KINDS), "")
        if named:
            return named
        status = getattr(getattr(link, "response", None), "status_code", None)
        if status is not None:
            return _STATUS.get(status, "server")
    if any(type(link).__name__ in _CUT or "onsistency check failed" in str(link) for link in chain):
        return "cut"
    return "unreachable"


def _chain(error: BaseException) -> List[BaseException]:
    """Return the error and its causes, ending with the root cause."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    return chain


def _describe(error: BaseException) -> str:
    """Return the first lines of the root cause and of the error."""
    lines = [next((line.strip() for line in str(link).splitlines() if line.strip()), "") for link in _chain(error)]
    parts = [text for text in (lines[-1], lines[0]) if text]
    return ": ".join(dict.fromkeys(parts))[:300] or type(error).__name__
