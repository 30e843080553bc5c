"""Without a repository, `push` prints the lines that load the adapter."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.hosts.hub import hub_library
from remote.errors import BadUsage
from tests.pipeline.verbs.hub import RUN, SETTINGS, Hub, pushed


def test_without_a_repository_the_lines_that_load_the_adapter_are_printed(project: Path, hub: Hub) -> None:
    code, answer = pushed(project, hub)
    assert code == 0
    assert answer["load"][0] == "from peft import PeftModel"
    assert str(project / ".halfstep" / "runs" / RUN / "adapter") in answer["load"][-1]
    assert hub.created == []


def test_an_adapter_whose_base_model_is_in_the_workdir_of_the_host_is_loaded_there(project: Path, hub: Hub) -> None:
    (project / "configs" / "speech.yaml").write_text("model: {id: tiny/phi4-multimodal}\n")
    config = project / ".halfstep" / "runs" / RUN / "adapter" / "adapter_config.json"
    config.write_text(json.dumps({**SETTINGS, "base_model_name_or_path": "/home/me/halfstep/projects/p/cache/tiny"}))
    line = pushed(project, hub)[1]["load"][-1]
    assert f'cache/tiny"), "/home/me/halfstep/projects/p/runs/{RUN}/adapter")' in line


def test_the_printed_lines_are_a_python_file(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    assert run(["push"]) == 0
    assert len(ast.parse(capsys.readouterr().out).body) == 3


def test_a_missing_hub_library_is_installed_into_the_environment_of_halfstep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(BadUsage) as caught:
        hub_library()
    assert sys.executable in caught.value.hint and caught.value.hint.endswith(" huggingface_hub)")


def test_the_adapter_of_the_user_s_own_script_is_loaded_by_the_class_of_its_task(project: Path, hub: Hub) -> None:
    (project / "train.py").write_text("")
    (project / "configs" / "speech.yaml").write_text("command: [python, train.py]\n")
    assert "AutoModelForCausalLM.from_pretrained" in pushed(project, hub)[1]["load"][-1]


def test_an_adapter_whose_settings_name_no_base_model_says_so(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "train.py").write_text("")
    (project / "configs" / "speech.yaml").write_text("command: [python, train.py]\n")
    folder = project / ".halfstep" / "runs" / RUN
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps({**SETTINGS, "base_model_name_or_path": None}))
    monkeypatch.chdir(project)
    assert run(["push"]) == 0
    shown = capsys.readouterr()
    assert 'AutoModelForCausalLM.from_pretrained("BASE_MODEL")' in shown.out
    assert "the adapter's settings name no base model: replace BASE_MODEL" in shown.err
    card = (folder / "model-card.md").read_text()
    assert "base_model:" not in card and 'from_pretrained("")' not in card
