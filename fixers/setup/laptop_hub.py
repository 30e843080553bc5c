"""Requests to the model hub from the laptop, through huggingface_hub in halfstep's environment."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from remote.protocol.hidden import message_line
from remote.protocol.quantities import duration
from remote.protocol.regular import read_regular
from remote.protocol.tokenizer_files import LARGEST_BYTES, NAMES, Digest, HubTree
from remote.protocol.values import Malformed, decode, encode

TIMEOUT_S = {"tree": 120.0}
FETCH_TIMEOUT_S = 1800.0


class HubUnavailable(Exception):
    """The hub could not be reached, or did not provide the file."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def ask_laptop_hub(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run `python -m remote.payload hub` locally and return its JSON answer. Raises HubUnavailable."""
    if importlib.util.find_spec("huggingface_hub") is None:
        raise HubUnavailable(
            "huggingface_hub is not installed in halfstep's environment, so nothing was downloaded",
            "pip install huggingface_hub",
        )
    timeout_s = TIMEOUT_S.get(request["do"], FETCH_TIMEOUT_S)
    try:
        done = subprocess.run(
            [sys.executable, "-E", "-m", "remote.payload", "hub"],
            input=json.dumps(dict(request)).encode(),
            capture_output=True,
            # In this folder, -m imports `remote` from this installation. -E ignores PYTHONPATH.
            cwd=Path(__file__).parents[2],
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HubUnavailable(f"the hub did not answer within {duration(timeout_s)}", "") from None
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise HubUnavailable(lines[-1] if lines else "the hub client ended without output", "") from None
    return answer


def tree_on_laptop(repo: str, revision: str) -> HubTree:
    """Return the commit of a repository and the digests of its tokenizer files. Raises HubUnavailable."""
    answer = ask_laptop_hub({"do": "tree", "repo": repo, "revision": revision, "names": list(NAMES)})
    try:
        return decode(HubTree, answer, text_rule=message_line, signed=False)
    except Malformed as error:
        raise HubUnavailable(f"{repo}: the hub sent a malformed answer: {error}", "") from None


def fetch_on_laptop(repo: str, commit: str, name: str, digest: Digest) -> bytes:
    """Download a file. Its size, digest and content are verified, see `fetch` of the payload. Raises HubUnavailable."""
    with tempfile.TemporaryDirectory(prefix="halfstep-hub-") as folder:
        request = {"do": "fetch", "repo": repo, "revision": commit, "folder": folder}
        answer = ask_laptop_hub({**request, "digests": {name: encode(digest)}})
        if "fault" in answer:
            raise HubUnavailable(f"{repo}: {answer['message']}", "")
        return read_regular(Path(folder) / name, LARGEST_BYTES)
