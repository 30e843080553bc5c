"""The tokenizer fixer writes to the project's tree and to the hub cache only."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.payload.fix.replaceable import is_replaceable, require_replaceable
from remote.payload.request.refusal import Refusal
from remote.protocol.tokenizer_files import digest_of

NEW = digest_of(b"new")
MODEL = "cache/models--lab--speech"
COMMIT = "c" * 40


@pytest.mark.parametrize(
    ("path", "replaceable"),
    [
        ("tree/tokenizer.json", True),
        ("tree/model/merges.txt", True),
        ("tree/train.py", False),
        ("tree/venv/bin/python", False),
        ("tree/.git/vocab.json", False),
        ("tree-of-another/merges.txt", False),
        ("tree/../.bashrc", False),
        (f"{MODEL}/blobs/{NEW.sha256}", True),
        (f"{MODEL}/blobs/{NEW.git_sha1}", True),
        (f"{MODEL}/blobs/authorized_keys", False),
        (f"{MODEL}/refs/main", False),
        (f"{MODEL}/snapshots/{COMMIT}/vocab.json", True),
        (f"{MODEL}/snapshots/{COMMIT}/train.py", False),
        ("cache/notes/blobs/merges.txt", False),
        ("cache/merges.txt", False),
    ],
)
def test_SE_only_tokenizer_files_of_the_tree_and_the_cache_are_replaceable(
    tmp_path: Path, path: str, replaceable: bool
) -> None:
    assert is_replaceable(str(tmp_path / path), str(tmp_path / "tree"), str(tmp_path / "cache")) is replaceable


@pytest.mark.parametrize(
    ("path", "args", "accepted"),
    [
        (f"{MODEL}/blobs/{NEW.sha256}", {}, True),
        (f"{MODEL}/blobs/{'a' * 64}", {}, False),
        (f"{MODEL}/snapshots/{COMMIT}/vocab.json", {"repo": "lab/speech", "revision": COMMIT}, True),
        (f"{MODEL}/snapshots/{COMMIT}/vocab.json", {"copy": "good/vocab.json"}, False),
        (f"{MODEL}/snapshots/{COMMIT}/vocab.json", {"repo": "evil/speech", "revision": COMMIT}, False),
        (
            f"{MODEL}/snapshots/{COMMIT}/vocab.json",
            {"repo": "lab/speech", "revision": COMMIT, "environment": {"HF_ENDPOINT": "https://evil.example"}},
            False,
        ),
    ],
)
def test_SE_a_file_of_the_cache_is_replaced_only_by_the_file_that_belongs_there(
    tmp_path: Path, path: str, args: dict[str, object], accepted: bool
) -> None:
    places = str(tmp_path / "tree"), str(tmp_path / "cache")
    (tmp_path / "link").symlink_to(tmp_path / path)
    for name in (path, "link"):
        if accepted:
            assert require_replaceable(str(tmp_path / name), *places, args, NEW) == str((tmp_path / path).resolve())
        else:
            with pytest.raises(Refusal, match="was not written"):
                require_replaceable(str(tmp_path / name), *places, args, NEW)
