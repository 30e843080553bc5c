"""The model hub, asked from the laptop where huggingface_hub is installed beside us: the same program as on a host."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from remote.protocol.tokenizer_files import Digest
from remote.protocol.values import encode

TIMEOUT_S = 1800.0


class HubUnavailable(Exception):
    """The hub could not be asked from here, or did not give the file."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def ask_laptop_hub(request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of `python -m remote.payload hub` in our own interpreter, also where it is an error of the hub."""
    if importlib.util.find_spec("huggingface_hub") is None:
        raise HubUnavailable(
            "huggingface_hub is not installed beside halfstep, so nothing was fetched", "pip install huggingface_hub"
        )
    done = subprocess.run(
        [sys.executable, "-E", "-m", "remote.payload", "hub"],
        input=json.dumps(dict(request)).encode(),
        capture_output=True,
        cwd=Path(__file__).parents[2],  # where `remote` is ours: neither the project nor PYTHONPATH is searched
        timeout=TIMEOUT_S,
        check=False,
    )
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise HubUnavailable(words[-1] if words else "the hub's client ended without a word", "") from None
    return answer


def fetch_on_laptop(repo: str, commit: str, name: str, digest: Digest) -> bytes:
    """The file's bytes, which have that digest. Raises HubUnavailable."""
    with tempfile.TemporaryDirectory(prefix="halfstep-hub-") as folder:
        request = {"do": "fetch", "repo": repo, "revision": commit, "folder": folder}
        answer = ask_laptop_hub({**request, "digests": {name: encode(digest)}})
        if "fault" in answer:
            raise HubUnavailable(f"{repo}: {answer['message']}", "")
        return (Path(folder) / name).read_bytes()
