"""FI-58 on the laptop: no verb prints or stores the value of a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.user import User

CANARY = "hf_CanaryOfTheLaptop0123456789"


@pytest.mark.parametrize(
    "words",
    [("run", "--dry-run"), ("run", "--until", "sync"), ("run", "--until", "environment", "--set", "python=1")],
    ids=["dry-run", "sync", "refused"],
)
def test_FI_58_a_secret_is_neither_printed_nor_kept(user: User, words: tuple[str, ...]) -> None:
    (user.project / "configs").mkdir()
    (user.project / "configs" / "plain.yaml").write_text("project: .\ncommand: [python, look.py]\n")
    user.environment["HF_TOKEN"] = CANARY
    named = ("--set", "secrets=[HF_TOKEN]")
    result = user.run_pipeline(*words, "--host", "local", "--config", "plain", "--json", *named)
    assert CANARY not in result.out + result.err
    assert result.json["config"] == "plain"
    places = (user.project, user.home)
    assert [path for place in places for path in place.rglob("*") if keeps(path)] == []


def keeps(path: Path) -> bool:
    return path.is_file() and CANARY.encode() in path.read_bytes()
