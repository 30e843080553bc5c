"""Shell completion offers every name of halfstep, and of a project's names only those that no shell interprets."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from pipeline.cli import names
from pipeline.cli.options import completes


def complete(source: str, typed: str = "") -> list[str]:
    return completes(source)(click.Context(click.Command("x")), click.Argument(["name"]), typed)


@pytest.mark.parametrize("name", ["train$(touch PWNED)", "a`id`", "a;id", "a b", "a'b", "a&b", "a|b", "*", "a>b"])
def test_SE_a_name_that_a_shell_would_interpret_is_not_completed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "configs/hosts").mkdir(parents=True)
    for file in (name, "plain-1.0_b"):
        (tmp_path / f"configs/{file}.yaml").write_text("project: .\n")
        (tmp_path / f"configs/hosts/{file}.yaml").write_text("host: x\n")
    monkeypatch.chdir(tmp_path)
    for source in ("configs", "hosts"):
        assert "plain-1.0_b" in complete(source)
        assert not any(name in each for each in complete(source))


@pytest.mark.parametrize("source", ["cards", "stages", "fixers", "pages", "manual", "keys"])
def test_every_name_of_halfstep_is_completed(source: str) -> None:
    assert complete(source) == sorted(set(getattr(names, source)()))
