"""`pipeline configs` says how each config is used, and which files are none."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from pipeline.cli.main import run


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("# pipeline run --host titan -c base\nproject: .\n", "pipeline run --host titan -c base"),
        ("train: {epochs: 1}\n", "pipeline run --host HOST --config base"),
        ("epochs: 3\noptim: adamw\nseed: 1\n", "not a valid config"),
    ],
)
def test_each_config_has_its_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, use: str
) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "base.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert run(["configs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["configs"][0] == {
        "name": "base",
        "use": use,
        "file": str(tmp_path / "configs" / "base.yaml"),
    }


@pytest.mark.parametrize("name", ["x$(id>PWN)", "w;id", "a b"], ids=["$", ";", "space"])
def test_the_name_of_a_config_is_one_word_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / f"{name}.yaml").write_text("train: {epochs: 1}\n")
    monkeypatch.chdir(tmp_path)
    assert run(["configs", "--json"]) == 0
    use = json.loads(capsys.readouterr().out)["configs"][0]["use"]
    assert shlex.split(use) == ["pipeline", "run", "--host", "HOST", "--config", name]


def test_a_huge_config_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "commented.yaml").write_text("# the first line\n")
    (tmp_path / "configs" / "plain.yaml").write_text("")
    for name in ("commented", "plain"):
        with (tmp_path / "configs" / f"{name}.yaml").open("ab") as file:
            file.truncate(2**40)
    monkeypatch.chdir(tmp_path)
    assert run(["configs", "--json"]) == 0
    found = {one["name"]: one["use"] for one in json.loads(capsys.readouterr().out)["configs"]}
    assert found["commented"] == found["plain"] == "not a valid config"


def test_hosts_check_shows_each_problem_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hosts", "check", "no-such-host.invalid"]) == 10
    out = capsys.readouterr().out
    assert out.count("cannot resolve") == 1 and "next: " in out


@pytest.mark.parametrize(("words", "own"), [(["configs"], "base"), (["hosts"], "hosts/rig")])
def test_a_table_of_files_has_short_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], own: str
) -> None:
    (tmp_path / "configs" / "hosts").mkdir(parents=True)
    (tmp_path / "configs" / "base.yaml").write_text("train: {epochs: 1}\n")
    (tmp_path / "configs" / "hosts" / "rig.yaml").write_text("port: abc\ncolour: red\n")
    monkeypatch.chdir(tmp_path)
    assert run(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith(f"  configs/{own}.yaml") and lines[2].endswith("  shipped")
    assert not any(str(tmp_path) in line for line in lines)


@pytest.mark.parametrize("name", ["y`id`", "q'id'", "n\nid", "b\\id", "h!id"])
def test_SE_a_config_that_shells_read_differently_is_in_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / f"{name}.yaml").write_text("train: {epochs: 1}\n")
    monkeypatch.chdir(tmp_path)
    assert run(["configs", "--json"]) == 0
    use = json.loads(capsys.readouterr().out)["configs"][0]["use"]
    assert use.endswith("type it for NAME: pipeline run --host HOST --config NAME")


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_SE_the_comment_of_a_file_outside_of_the_project_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: list[str]
) -> None:
    (tmp_path / "private").write_text("# account 12345\n")
    configs = tmp_path / "project" / "configs"
    configs.mkdir(parents=True)
    (configs / "net.yaml").symlink_to(tmp_path / "private")
    (configs / "own.yaml").write_text("# made by hand\n")
    monkeypatch.chdir(tmp_path / "project")
    assert run(["configs", *as_json]) == 0
    shown = capsys.readouterr().out
    assert "12345" not in shown and "not a valid config" in shown and "made by hand" in shown
