"""Shell completion is installed for three shells, and offers no name of a project that a shell would interpret."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click
import pytest

from pipeline.cli import names
from pipeline.cli.completion import NO_SPACE, SCRIPT_PATHS
from pipeline.cli.main import run
from pipeline.cli.options import completes
from remote.protocol.exits import ExitCode


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


@pytest.mark.parametrize(("shell", "file"), SCRIPT_PATHS.items())
def test_completion_is_installed_where_the_shell_looks_for_it(
    shell: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    assert run(["--install-completion"]) == 0
    for name in ("pipeline", "halfstep"):
        script = (tmp_path / file.format(name)).read_text()
        assert f"_PIPELINE_COMPLETE={shell}_complete" in script
        assert name in script


def test_a_shell_without_completion_is_refused_with_those_that_have_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert run(["--install-completion"]) == ExitCode.USAGE
    assert "bash, zsh and fish" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "after"), [("train.seed=", "[]"), ("titan", "[ ]")])
def test_no_space_follows_a_completed_key_in_zsh(name: str, after: str) -> None:
    suffix = NO_SPACE["compadd -U -V unsorted -a completions"].partition("-S ")[2].partition(" -a")[0]
    program = f'completions=({name}); suffix={suffix}; print -r -- "[$suffix]"'
    done = subprocess.run(["zsh", "-fc", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip("\n") == after


def test_help_of_the_completion_installs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    assert run(["--install-completion", "--help"]) == 0
    assert "Usage: pipeline" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
