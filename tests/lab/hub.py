"""A model hub on loopback: the endpoints that huggingface_hub uses, and faults that happen a given number of times."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = hashlib.sha1(b"the only commit").hexdigest()
HTML = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>proxy</body></html>\n"


@dataclass
class Fault:
    """A fault in the bytes of one file: `kind` is cut, html, pointer, flip, or an HTTP status as text."""

    kind: str
    at: int = 0
    times: int = 1_000_000
    fired: int = 0


@dataclass
class Repository:
    """Files by name at one commit. `large` names are stored in LFS, behind a redirect and a sha256 ETag.

    `commits` maps other commits to their files. `refs` maps branches and other names to commits; a test may move one.
    """

    files: dict[str, bytes]
    large: frozenset[str] = frozenset()
    gated: bool = False
    private: bool = False
    token: str = ""
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})

    def commit_of(self, revision: str) -> str:
        """Return the commit of a branch or a commit, or "" if the repository has no such revision."""
        commit = self.refs.get(revision, revision)
        return commit if commit == COMMIT or commit in self.commits else ""

    def files_at(self, commit: str) -> dict[str, bytes]:
        """Return the files of a commit."""
        return self.commits.get(commit, self.files)


@dataclass
class Hub:
    """The served files, the planned faults, and every request so far with its header `Authorization`."""

    repositories: dict[str, Repository]
    faults: dict[str, Fault] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    api_status: int = 0
    url: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """Return variables that make huggingface_hub use only this hub."""
        return {"HF_ENDPOINT": self.url, "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": ""}


def git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def lfs_pointer(data: bytes) -> bytes:
    digest = hashlib.sha256(data).hexdigest()
    return f"version https://git-lfs.hosts.test/spec/v1\noid sha256:{digest}\nsize {len(data)}\n".encode()


@contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    """Serve the hub at `hub.url` until the block ends."""

    class Handler(_Handler):
        world = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    world: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print nothing, because requests are recorded elsewhere."""

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        # A slash in the name of a revision stays quoted until the path is divided.
        path = unquote(urlsplit(self.path).path.replace("%2F", "%252F"))
        self.world.requests.append(f"{self.command} {path}")
        self.world.authorizations.append(self.headers.get("Authorization") or "")
        kind = next((kind for kind in ("models", "datasets") if path.startswith(f"/api/{kind}/")), "")
        if kind:
            self._api(path.removeprefix(f"/api/{kind}/"))
        elif path.startswith("/lfs/"):
            self._large(path)
        elif "/resolve/" in path:
            self._resolve(path)
        else:
            self._error(404, "EntryNotFound")

    def _api(self, rest: str) -> None:
        if self.world.api_status:
            return self._error(self.world.api_status, "")
        name, _, what = rest.partition("/tree/") if "/tree/" in rest else rest.partition("/revision/")
        repository = self.world.repositories.get(name)
        if repository is None or (repository.private and not self._may_read(repository)):
            return self._error(401, "RepoNotFound")
        revision, _, folder = what.partition("/")
        commit = repository.commit_of(unquote(revision) or "main")
        if not commit or folder:
            return self._error(404, "EntryNotFound" if folder else "RevisionNotFound")
        files = repository.files_at(commit)
        if "/tree/" in rest:
            return self._json([self._entry(repository, file, data) for file, data in files.items()])
        siblings = [{"rfilename": file} for file in files]
        return self._json(
            {"id": name, "modelId": name, "sha": commit, "siblings": siblings, "gated": False, "tags": []}
        )

    def _may_read(self, repository: Repository) -> bool:
        return self.headers.get("Authorization") == f"Bearer {repository.token}"

    def _entry(self, repository: Repository, file: str, data: bytes) -> dict[str, object]:
        if file not in repository.large:
            return {"type": "file", "path": file, "size": len(data), "oid": git_sha1(data)}
        pointer = lfs_pointer(data)
        lfs = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": len(pointer)}
        return {"type": "file", "path": file, "size": len(data), "oid": git_sha1(pointer), "lfs": lfs}

    def _resolve(self, path: str) -> None:
        name, _, rest = path[1:].removeprefix("datasets/").partition("/resolve/")
        revision, _, file = rest.partition("/")
        repository = self.world.repositories.get(name)
        if repository is None:
            return self._error(401, "RepoNotFound")
        if repository.gated and not self._may_read(repository):
            return self._error(401, "GatedRepo")
        found = repository.commit_of(unquote(revision))
        if not found or file not in repository.files_at(found):
            return self._error(404, "EntryNotFound")
        data = repository.files_at(found)[file]
        commit = {"X-Repo-Commit": found}
        if file not in repository.large:
            return self._bytes(file, data, {**commit, "ETag": f'"{git_sha1(data)}"'})
        digest = hashlib.sha256(data).hexdigest()
        location = f"{self.world.url.replace('127.0.0.1', 'localhost')}/lfs/{name}/{file}"
        linked = {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(data)), "Location": location}
        return self._answer(302, b"", {**commit, **linked})

    def _large(self, path: str) -> None:
        name, _, file = path.removeprefix("/lfs/").rpartition("/")
        data = self.world.repositories[name].files[file]
        self._bytes(file, data, {"ETag": f'"{hashlib.sha256(data).hexdigest()}"'})

    def _bytes(self, file: str, data: bytes, headers: dict[str, str]) -> None:
        fault = self.world.faults.get(file)
        if self.command == "HEAD" or fault is None or fault.fired >= fault.times:
            return self._range(data, headers)
        fault.fired += 1
        if fault.kind == "cut":
            self.close_connection = True
            return self._answer(200, data[: fault.at], headers, length=len(data))
        if fault.kind == "flip":
            return self._answer(200, data[:-2] + bytes([data[-2] ^ 1]) + data[-1:], headers)
        if fault.kind == "html":
            return self._answer(200, HTML, {**headers, "Content-Type": "text/html"})
        if fault.kind == "pointer":
            return self._answer(200, lfs_pointer(data), headers)
        return self._error(int(fault.kind), "")

    def _range(self, data: bytes, headers: dict[str, str]) -> None:
        wanted = self.headers.get("Range", "")
        if not wanted.startswith("bytes="):
            return self._answer(200, data, headers)
        start = int(wanted.removeprefix("bytes=").split("-")[0])
        span = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
        return self._answer(206, data[start:], {**headers, **span})

    def _json(self, value: object) -> None:
        self._answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _error(self, status: int, code: str) -> None:
        words = {"X-Error-Code": code, "X-Error-Message": code} if code else {}
        self._answer(status, json.dumps({"error": code or str(status)}).encode(), words)

    def _answer(self, status: int, body: bytes, headers: dict[str, str], length: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
