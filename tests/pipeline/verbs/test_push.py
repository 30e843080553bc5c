"""Test `push` with a stand-in for the hub's HTTP interface: huggingface_hub uploads the adapter with a card."""

from __future__ import annotations

import ast
import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.cli.main import run
from pipeline.hosts.hub import hub_library
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_note
from pipeline.report.model import RunReport, Verdict
from pipeline.report.model_card import CardFacts, render_card
from pipeline.report.saved import save_report
from remote.errors import BadUsage
from remote.protocol.evaluation import Estimate, EvaluationResult, ModelScores
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobState
from remote.protocol.values import dumps

RUN = "speech-0123abcd"
TOKEN = "hf_" + "x" * 34
WEIGHTS = b"\x08\0\0\0\0\0\0\0{}      "
SETTINGS = {"r": 64, "lora_alpha": 128, "lora_dropout": 0.05, "task_type": "CAUSAL_LM", "base_model_name_or_path": "/x"}


@dataclass
class Hub:
    """The repositories that were created, the files of the last commit, and the answer of the server."""

    address: str = ""
    created: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    refuses: int = 0


@pytest.fixture
def hub() -> Iterator[Hub]:
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if state.refuses or self.headers.get("authorization") != f"Bearer {TOKEN}":
                self.answer({"error": "refused"}, state.refuses or 401)
            elif self.path.endswith("/repos/create"):
                state.created.append(json.loads(body))
                self.answer({"url": f"{state.address}/me/speech"})
            elif "/preupload/" in self.path:
                files = [{"path": one["path"], "uploadMode": "regular"} for one in json.loads(body)["files"]]
                self.answer({"files": [{**one, "shouldIgnore": False} for one in files]})
            elif "/commit/" in self.path:
                rows = [json.loads(line)["value"] for line in body.splitlines()[1:]]
                state.files = {row["path"]: base64.b64decode(row["content"]) for row in rows}
                self.answer(
                    {"success": True, "commitOid": "c0ffee", "commitUrl": f"{state.address}/me/speech/commit/c0ffee"}
                )
            else:
                self.answer({"errors": [], "warnings": []})

        def answer(self, value: object, status: int = 200) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield state
    server.shutdown()
    server.server_close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a finished run, its report, evaluation and adapter."""
    root = tmp_path / "project"
    (root / "configs").mkdir(parents=True)
    (root / "configs" / "speech.yaml").write_text(
        "model: {id: someone/audio-model, revision: abc}\ndata: {dataset: someone/recordings}\n"
    )
    records = Records(root)
    note = RunNote(RUN, "titan", "speech", "p", 1.0, state=JobState.SUCCEEDED, step=120, steps=120, seen_unix=2.0)
    write_note(records, note)
    folder = records.folder_named(RUN)
    environment = (("torch", "2.13.0"),)
    save_report(
        folder,
        RunReport(
            RUN,
            "speech",
            "titan",
            Verdict.TRAINED,
            card="TITAN RTX",
            precision="fp16-mixed: below 8.0",
            step=120,
            environment=environment,
        ),
    )
    (folder / "evaluation.json").write_bytes(
        dumps(
            EvaluationResult(
                (ModelScores("adapter", {"mdd/wer": Estimate(0.125, 0.1, 0.15), "mdd/per": Estimate(None)}),),
                recordings=50,
                answers=50,
                data="someone/recordings",
                split="test",
            )
        )
    )
    (folder / "adapter").mkdir()
    (folder / "adapter" / "adapter_model.safetensors").write_bytes(WEIGHTS)
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps(SETTINGS))
    (folder / "adapter" / "README.md").write_text("as the trainer saved it")
    return root


def pushed(project: Path, hub: Hub, *words: str, token: str = TOKEN) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "push", *words, "--json"],
        cwd=project,
        env={
            **os.environ,
            "HF_ENDPOINT": hub.address,
            "HF_TOKEN": token,
            "HF_HUB_DISABLE_XET": "1",
            "HOME": str(project.parent),
            "PYTHONPATH": str(Path(__file__).parents[3]),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert TOKEN not in done.stdout + done.stderr
    return done.returncode, json.loads(done.stdout)


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
    assert sys.executable in caught.value.hint and caught.value.hint.endswith(" huggingface_hub")


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
