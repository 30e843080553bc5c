"""The warnings of `verify` about the trackers of `train.report_to`, and the names that a config may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config.document import BadConfig
from pipeline.config.load import load_file
from pipeline.config.model import RunConfig
from pipeline.judgements.trackers import judge_trackers
from pipeline.runs.run_id import influential, training_settings
from remote.protocol.machine import Interpreter

MODEL = {"model": {"id": "tiny/phi4-multimodal"}, "data": {"dataset": "tiny-speech"}}


def config(*names: str, **more: object) -> RunConfig:
    return RunConfig.model_validate({**MODEL, "train": {"report_to": list(names)}, **more})


def python(*packages: str) -> Interpreter:
    return Interpreter("/venv/bin/python", packages=dict.fromkeys(packages, "1.0"))


@pytest.mark.parametrize(
    ("names", "packages", "env", "secrets", "hints"),
    [
        (("tensorboard",), (), {}, (), []),
        (("mlflow",), ("mlflow",), {}, (), []),
        (("mlflow",), ("mlflow-skinny",), {}, (), []),
        (("mlflow", "trackio"), (), {}, (), ["mlflow", "trackio"]),
        (("wandb",), ("wandb",), {}, ("WANDB_API_KEY",), []),
        (("wandb",), ("wandb",), {"WANDB_MODE": "offline"}, (), []),
        (("wandb",), ("wandb",), {"WANDB_MODE": "online"}, (), ["secrets: [WANDB_API_KEY]"]),
        (("wandb", "wandb"), (), {}, (), ["wandb"]),
    ],
)
def test_a_tracker_that_cannot_receive_data_is_a_warning(
    names: tuple[str, ...], packages: tuple[str, ...], env: dict[str, str], secrets: tuple[str, ...], hints: list[str]
) -> None:
    found = list(judge_trackers(config(*names), python(*packages), env, secrets))
    begin, end = "(cd / && /venv/bin/python -m pip install ", ")   (on the host)"
    assert [one.hint.removeprefix(begin).removesuffix(end) for one in found] == hints
    assert {(one.check, one.severity.value) for one in found} <= {("tracker", "warning")}


def test_an_own_script_and_an_interpreter_that_does_not_run_get_no_warning() -> None:
    own = config("mlflow", command=["python", "train.py"])
    assert list(judge_trackers(own, python(), {}, ())) == []
    assert list(judge_trackers(config("mlflow"), Interpreter("/x", error="not found"), {}, ())) == []


def test_an_unknown_tracker_is_an_error_with_the_nearest_name(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("model: {id: tiny/phi4-multimodal}\ndata: {dataset: tiny-speech}\ntrain: {report_to: [wanbd]}\n")
    with pytest.raises(BadConfig) as raised:
        load_file(file, tmp_path, [])
    [finding] = raised.value.findings
    assert finding.where.endswith("a.yaml:3") and finding.hint == "wandb"
    assert finding.message.startswith("train.report_to.0: should be 'tensorboard', 'wandb', 'mlflow' or 'trackio'")


def test_another_tracker_makes_no_new_run() -> None:
    assert training_settings(config("mlflow")) == training_settings(config("tensorboard"))
    settings = {"train": {"report_to": ["mlflow"], "epochs": 2}, "secrets": ["A"]}
    assert influential(settings) == {"train": {"epochs": 2}}
