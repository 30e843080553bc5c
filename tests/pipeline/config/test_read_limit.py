"""A command that reads all configs of a project parses a limited number of files and bytes, and each content once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixers.sources.yaml_nodes import compose
from pipeline.cli.main import run
from pipeline.config.document import LIMITS
from pipeline.config.find import list_configs
from pipeline.config.read_limit import MOST_BYTES, MOST_FILES, NOT_READ, beyond_limit
from remote.protocol import hidden
from tests.pipeline.work import count_calls

LARGE = b"#" * LIMITS.bytes
FIT = MOST_BYTES // LIMITS.bytes


@pytest.fixture
def configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of configs of a project, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hidden, "_values", set())
    Path("configs/hosts").mkdir(parents=True)
    Path("train.log").touch()
    return tmp_path / "configs"


def beyond(configs: Path) -> set[str]:
    return {path.name for path in beyond_limit(list_configs(configs.parent).values())}


def test_SE_files_after_the_limit_of_files_are_not_read(configs: Path) -> None:
    for index in range(MOST_FILES + 2):
        (configs / f"c{index:03}.yaml").touch()
    assert beyond(configs) == {f"c{MOST_FILES}.yaml", f"c{MOST_FILES + 1}.yaml"}


def test_SE_files_after_the_limit_of_bytes_are_not_read(configs: Path) -> None:
    for index in range(FIT + 1):
        (configs / f"c{index}.yaml").write_bytes(LARGE)
    (configs / "a-too-large-for-a-config.yaml").write_bytes(LARGE + b"#")
    assert beyond(configs) == {f"c{FIT}.yaml"}


@pytest.mark.parametrize(("verb", "folder", "key"), [("configs", "", "use"), ("hosts", "hosts", "reaches")])
def test_SE_a_file_beyond_the_limit_is_listed_as_not_read(
    configs: Path, capsys: pytest.CaptureFixture[str], verb: str, folder: str, key: str
) -> None:
    for index in range(FIT + 1):
        (configs / folder / f"c{index}.yaml").write_bytes(LARGE)
    assert run([verb, "--json"]) == 0
    rows = {one["name"]: one[key] for one in json.loads(capsys.readouterr().out)[verb]}
    assert [name for name, text in rows.items() if NOT_READ in text] == [f"c{FIT}"]
    assert not any(NOT_READ in rows[name] for name in ("tiny" if verb == "configs" else "local", "c0"))


def test_SE_diagnose_names_the_number_of_files_whose_secrets_are_not_masked(
    configs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for index in range(FIT + 3):
        (configs / f"c{index}.yaml").write_bytes(LARGE)
    run(["diagnose", "train.log"])
    words = " ".join(capsys.readouterr().out.split())
    assert f"3 files in configs/ were {NOT_READ}" in words and "are not masked" in words


@pytest.mark.parametrize("command", [["configs"], ["diagnose", "train.log"]])
def test_SE_equal_configs_are_parsed_once(configs: Path, command: list[str]) -> None:
    def parses() -> int:
        return count_calls(compose, lambda: run(command))

    (configs / "c.yaml").write_text(f"seed: 1  # {command}\n")
    run(command)
    for index in range(40):
        (configs / f"c{index}.yaml").write_text(f"seed: 2  # {command}\n")
    assert parses() == 1 and parses() == 0
