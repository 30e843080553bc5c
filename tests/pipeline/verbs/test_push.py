"""Test `push` with a stand-in for the hub's HTTP interface: huggingface_hub uploads the adapter with a card."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from pipeline.records.find_run import find_note
from pipeline.records.layout import Records
from pipeline.records.runs import write_note
from pipeline.report.model_card import CardFacts, render_card
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobState
from tests.pipeline.verbs.hub import RUN, SETTINGS, WEIGHTS, Hub, pushed


def test_the_adapter_arrives_with_its_settings_and_a_card(project: Path, hub: Hub) -> None:
    code, answer = pushed(project, hub, RUN, "--repo", "me/speech", "--private")
    assert (code, answer["findings"]) == (0, [])
    assert answer["commit"].endswith("/commit/c0ffee")
    assert [(one["organization"], one["name"], one["visibility"]) for one in hub.created] == [
        ("me", "speech", "private")
    ]
    assert sorted(hub.files) == ["README.md", "adapter_config.json", "adapter_model.safetensors"]
    assert hub.files["adapter_model.safetensors"] == WEIGHTS
    settings = json.loads(hub.files["adapter_config.json"])
    assert settings == {**SETTINGS, "base_model_name_or_path": "someone/audio-model"}
    _, header, body = hub.files["README.md"].decode().split("---\n", 2)
    assert yaml.safe_load(header) == {
        "base_model": "someone/audio-model",
        "library_name": "peft",
        "tags": ["lora", "halfstep"],
        "datasets": ["someone/recordings"],
    }
    for words in (
        "| precision | fp16-mixed |",
        "| rank | 64 |",
        "| card | TITAN RTX |",
        "| torch | 2.13.0 |",
        "| mdd/wer | 0.125 | 0.100 to 0.150 |",
        '.from_pretrained("someone/audio-model", revision="abc"), "me/speech")',
    ):
        assert words in body
    assert "mdd/per" not in body


def test_the_card_names_the_commit_that_was_trained_on_not_the_branch_in_the_config(project: Path, hub: Hub) -> None:
    config = project / ".halfstep" / "runs" / RUN / "adapter" / "adapter_config.json"
    config.write_text(json.dumps({**SETTINGS, "revision": "c" * 40}))
    assert pushed(project, hub, RUN, "--repo", "me/speech")[0] == 0
    assert f'.from_pretrained("someone/audio-model", revision="{"c" * 40}")' in hub.files["README.md"].decode()


@pytest.mark.parametrize("value", [7, [1], {"a": {}}, "\ud800\x1b]0;x\x07\n```\n# b"], ids=type)
def test_SE_05_settings_of_an_adapter_of_another_type_give_a_card(project: Path, hub: Hub, value: object) -> None:
    config = project / ".halfstep" / "runs" / RUN / "adapter" / "adapter_config.json"
    keys = ("revision", "base_model_name_or_path", "task_type", "auto_mapping", "r", "lora_alpha")
    config.write_text(json.dumps({**SETTINGS, **dict.fromkeys(keys, value)}))
    (project / "configs" / "speech.yaml").unlink()
    code, answer = pushed(project, hub, RUN)
    card = (project / ".halfstep" / "runs" / RUN / "model-card.md").read_text()
    assert code == 0 and "\x1b" not in card + json.dumps(answer) and "\n# b" not in card


def test_the_local_adapter_keeps_the_files_that_its_digests_cover(project: Path, hub: Hub) -> None:
    adapter = project / ".halfstep" / "runs" / RUN / "adapter"
    before = {path.name: path.read_bytes() for path in adapter.iterdir()}
    assert pushed(project, hub, RUN, "--repo", "me/speech")[0] == 0
    assert {path.name: path.read_bytes() for path in adapter.iterdir()} == before


@pytest.mark.parametrize("base", ["", "someone/model"])
def test_the_header_of_a_card_never_names_an_empty_base_model(base: str) -> None:
    card = render_card(CardFacts("me/speech", "speech", base, None, (), {}, built_in=False))
    header = yaml.safe_load(card.split("---")[1])
    assert header.get("base_model") == (base or None) and '""' not in card and "``" not in card.replace("```", "")


def test_a_base_model_that_is_not_on_a_hub_is_a_warning(project: Path, hub: Hub) -> None:
    (project / "configs" / "speech.yaml").write_text("model: {id: tiny/phi4-multimodal}\n")
    code, answer = pushed(project, hub, "--repo", "me/speech")
    assert code == 0
    assert [one["check"] for one in answer["findings"]] == ["base-not-on-hub"]


def test_a_refused_login_says_how_to_log_in(project: Path, hub: Hub) -> None:
    code, answer = pushed(project, hub, "--repo", "me/speech", token="hf_wrong")
    assert code == ExitCode.USAGE
    assert answer["findings"][0]["hint"] == "hf auth login"
    assert hub.files == {}


def test_a_hub_that_is_down_is_a_connection_error(project: Path, hub: Hub) -> None:
    hub.address = "http://127.0.0.1:9"
    assert pushed(project, hub, "--repo", "me/speech")[0] == ExitCode.CONNECT


def test_a_name_that_the_hub_cannot_have_is_a_usage_error(project: Path, hub: Hub) -> None:
    assert pushed(project, hub, "--repo", "me/../speech")[0] == ExitCode.USAGE


@pytest.mark.parametrize("settings", ["[" * 200_000, '["r"]', "torn"], ids=["deep", "a list", "torn"])
def test_SE_settings_that_a_host_made_up_are_a_usage_error(project: Path, hub: Hub, settings: str) -> None:
    folder = Records(project).folder_named(RUN) / "adapter"
    (folder / "adapter_config.json").write_text(settings)
    code, answer = pushed(project, hub)
    assert code == ExitCode.USAGE
    assert "settings of the adapter cannot be read" in answer["findings"][0]["message"]


def test_without_the_adapter_the_hint_downloads_it(project: Path, hub: Hub) -> None:
    (project / ".halfstep" / "runs" / RUN / "adapter" / "adapter_model.safetensors").unlink()
    code, answer = pushed(project, hub, "--repo", "me/speech")
    assert code == ExitCode.USAGE
    assert answer["findings"][0]["hint"] == f"pipeline pull {RUN} --weights"


@pytest.mark.parametrize("linked", ["adapter", "adapter/adapter_model.safetensors", "adapter/adapter_config.json"])
def test_a_file_from_outside_of_a_cloned_projects_records_is_not_uploaded(
    project: Path, hub: Hub, tmp_path: Path, linked: str
) -> None:
    path = Records(project).folder_named(RUN) / linked
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    code, answer = pushed(project, hub, "--repo", "me/speech")
    assert code == ExitCode.USAGE
    assert "symbolic link" in answer["findings"][0]["message"]
    assert not hub.created and not hub.files


@pytest.mark.parametrize(("state", "hint"), [("stopped", f"--resume {RUN}"), ("running", f"pipeline wait {RUN}")])
def test_without_the_adapter_of_an_unfinished_run_the_hint_finishes_the_run(
    project: Path, hub: Hub, state: str, hint: str
) -> None:
    (project / ".halfstep" / "runs" / RUN / "adapter" / "adapter_model.safetensors").unlink()
    records = Records(project)
    write_note(records, replace(find_note(records, RUN), state=JobState(state)))
    code, answer = pushed(project, hub, RUN, "--repo", "me/speech")
    [finding] = answer["findings"]
    assert code == ExitCode.USAGE and finding["hint"].endswith(hint)
    assert f"the run has not succeeded ({state})" in finding["message"]


def test_the_number_of_labels_is_read_from_the_weights_of_the_classifier(project: Path, hub: Hub) -> None:
    adapter = project / ".halfstep" / "runs" / RUN / "adapter"
    settings = {**SETTINGS, "task_type": "SEQ_CLS"}
    (adapter / "adapter_config.json").write_text(json.dumps(settings))
    config = project / "configs" / "speech.yaml"
    config.unlink()
    row = {"dtype": "F32", "shape": [4, 2], "data_offsets": [0, 32]}
    header = json.dumps({"base_model.model.classifier.out_proj.weight": row}).encode()
    (adapter / "adapter_model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(32))
    code, answer = pushed(project, hub, RUN)
    assert code == 0
    assert 'AutoModelForSequenceClassification.from_pretrained("/x", num_labels=4)' in answer["load"][-1]
