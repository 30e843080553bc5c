"""SE-12: a recorded cure is used only if the user wrote the record, and of the cure only its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.actions.session import host_session
from pipeline.diagnosis.cures import CONFIG_CURES, Cure
from pipeline.records.inputs import digest
from pipeline.records.kept_cures import read_cures, write_cures
from pipeline.records.layout import Records
from pipeline.records.signed import write_in_place
from pipeline.runs.selection import Selection, load_selection
from pipeline.stages.stage import RunOptions
from remote.errors import SecretsUntrusted
from tests.pipeline.listeners import NoListener

SECRETS = {"secrets": ["AWS_SECRET_ACCESS_KEY"]}
FREE_PORT = {"env.MASTER_PORT": "{free_port}", "env.PET_MASTER_PORT": "{free_port}"}


def plant(path: Path, config: dict[str, Any], *names: str) -> Path:
    """Write a signed record of cures. Each of them requests a secret, which no version records."""
    cures = [{"name": name, "words": "x", "fixer": "bf16-to-fp16", "overrides": SECRETS} for name in names]
    write_in_place(path, {"config": digest(config), "cures": cures})
    return path


def selection(root: Path) -> Selection:
    project = root / "project"
    (project / "configs").mkdir(parents=True)
    (project / "train.py").touch()
    (project / "configs" / "plain.yaml").write_text("command: [python, train.py]\n")
    return load_selection("local", "plain", [f"host.workdir={root}/there"], project)


def test_SE_12_the_overrides_of_a_planted_cure_are_not_used(tmp_path: Path) -> None:
    selected = selection(tmp_path)
    records = Records(selected.loaded.root)
    plant(records.cures("local", selected.loaded.record), selected.loaded.as_json(), "config:free-port")
    with host_session(selected, NoListener(), RunOptions()) as context:
        assert context.view.config.secrets == ()
        assert [(cure.fixer, cure.overrides) for cure in context.view.cures] == [("", FREE_PORT)]


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (["config:nothing", "other", "", "fixer:", "fixer:../x", "fixer:no-such", "retry:x", "config"], []),
        (["retry", "config:nothing", "retry", "retry"], ["retry"]),
        (["retry", "config:free-port", "config:expandable-segments"], ["retry", "config:free-port"]),
    ],
)
def test_SE_12_planted_names_without_a_cure_are_ignored_and_no_more_cures_apply_than_run_tries(
    tmp_path: Path, names: list[str], kept: list[str]
) -> None:
    assert [cure.name for cure in read_cures(plant(tmp_path / "c.json", {}, *names), {})] == kept


def test_SE_13_secrets_that_a_cure_requests_are_confirmed_like_those_of_the_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONFIG_CURES, "free-port", lambda config: Cure("config:free-port", "x", overrides=SECRETS))
    selected = selection(tmp_path)
    records = Records(selected.loaded.root)
    plant(records.cures("local", selected.loaded.record), selected.loaded.as_json(), "config:free-port")
    with pytest.raises(SecretsUntrusted), host_session(selected, NoListener(), RunOptions()):
        pass


def test_cures_that_were_written_are_read_again_for_the_same_config_only(tmp_path: Path) -> None:
    path, config = tmp_path / "c.json", {"precision": "fp16-pure"}
    cure = Cure("config:precision-auto", "precision fp16-pure to auto", overrides={"precision": "auto"})
    write_cures(path, config, (cure,))
    assert read_cures(path, config) == (cure,)
    assert read_cures(path, {"precision": "fp32"}) == ()
    assert "overrides" not in path.read_text()
