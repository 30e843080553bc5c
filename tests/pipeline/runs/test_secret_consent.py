"""SE-13: a config of a project that requests secrets is confirmed before their values are read."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.hosts import load_host
from pipeline.config.load import LoadedConfig, load_config
from pipeline.runs.consent import require_secret_consent
from remote.errors import BadUsage, SecretsUntrusted
from remote.project.user_folder import user_file
from remote.protocol.exits import ExitCode
from tests.lab.answers import Person


def config(root: Path, secrets: str = "[HF_TOKEN, AWS_SECRET_ACCESS_KEY]") -> LoadedConfig:
    (root / "configs").mkdir(exist_ok=True, parents=True)
    (root / "train.py").touch()
    (root / "configs/plain.yaml").write_text(f"project: .\ncommand: [python, train.py]\nsecrets: {secrets}\n")
    return load_config("plain", root)


def test_SE_13_secrets_of_a_projects_config_are_refused_until_they_were_confirmed_once(tmp_path: Path) -> None:
    loaded = config(tmp_path)
    for nobody in (None, Person(yes=False)):
        with pytest.raises(SecretsUntrusted, match=r"requests AWS_SECRET_ACCESS_KEY, HF_TOKEN") as caught:
            require_secret_consent(loaded, nobody, typed=False, host=None)
        assert caught.value.exit_code is ExitCode.HOST_KEY
        assert caught.value.hint == "pipeline run --set 'secrets=[AWS_SECRET_ACCESS_KEY,HF_TOKEN]'"
    user = Person()
    require_secret_consent(loaded, user, typed=False, host=None)
    require_secret_consent(loaded, None, typed=False, host=None)
    assert len(user.questions) == 1
    assert user_file("trusted_secrets", os.environ).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("change", ["another name", "another project"])
def test_SE_13_a_confirmation_holds_for_one_file_and_its_secret_names(tmp_path: Path, change: str) -> None:
    require_secret_consent(config(tmp_path / "mine", "[HF_TOKEN]"), Person(), typed=False, host=None)
    cloned = change == "another project"
    other = config(tmp_path / "cloned", "[HF_TOKEN]") if cloned else config(tmp_path / "mine", "[HF_TOKEN, OTHER]")
    with pytest.raises(SecretsUntrusted):
        require_secret_consent(other, None, typed=False, host=None)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("host: 10.0.0.1\ncard: titan-rtx\n", True),
        ("host: 10.0.0.2\n", False),
        ("host: 10.0.0.1\nport: 2222\n", False),
        ("host: 10.0.0.1\nuser: other\n", False),
        ("host: 10.0.0.1\nproxy_jump: [gate.example]\n", False),
        (f"host: 10.0.0.1\nhost_key: SHA256:{'a' * 43}\n", False),
    ],
)
def test_SE_a_confirmation_holds_for_one_machine(tmp_path: Path, text: str, holds: bool) -> None:
    loaded, file = config(tmp_path, "[HF_TOKEN]"), tmp_path / "configs/hosts/rig.yaml"
    file.parent.mkdir()
    file.write_text("host: 10.0.0.1\n")
    user = Person()
    require_secret_consent(loaded, user, typed=False, host=load_host("rig", tmp_path))
    assert "sent to rig (10.0.0.1)?" in user.questions[0]
    file.write_text(text)
    if holds:
        require_secret_consent(loaded, None, typed=False, host=load_host("rig", tmp_path))
        return
    with pytest.raises(SecretsUntrusted):
        require_secret_consent(loaded, None, typed=False, host=load_host("rig", tmp_path))


def test_SE_a_confirmation_of_an_export_and_one_of_a_host_do_not_hold_for_each_other(tmp_path: Path) -> None:
    (tmp_path / "configs/hosts").mkdir(parents=True)
    (tmp_path / "configs/hosts/rig.yaml").write_text("host: 10.0.0.1\n")
    rig = load_host("rig", tmp_path)
    for name, asked, other in (("HF_TOKEN", None, rig), ("WANDB_API_KEY", rig, None)):
        loaded = config(tmp_path, f"[{name}]")
        require_secret_consent(loaded, Person(), typed=False, host=asked)
        with pytest.raises(SecretsUntrusted):
            require_secret_consent(loaded, None, typed=False, host=other)


@pytest.mark.parametrize(
    ("linked", "error"), [("the config", BadUsage), ("the folder of the configs", SecretsUntrusted)]
)
def test_SE_13_a_confirmation_does_not_hold_for_a_clone_that_links_to_the_confirmed_config(
    tmp_path: Path, linked: str, error: type[Exception]
) -> None:
    require_secret_consent(config(tmp_path / "mine", "[HF_TOKEN]"), Person(), typed=False, host=None)
    clone = tmp_path / "cloned" / "configs"
    (clone if linked == "the config" else clone.parent).mkdir(parents=True)
    if linked == "the config":
        (clone / "plain.yaml").symlink_to("../../mine/configs/plain.yaml")
    else:
        clone.symlink_to("../mine/configs")
    (tmp_path / "cloned/train.py").touch()
    with pytest.raises(error):
        require_secret_consent(load_config("plain", tmp_path / "cloned"), None, typed=False, host=None)


def test_what_was_typed_and_a_config_without_secrets_need_no_confirmation(tmp_path: Path) -> None:
    require_secret_consent(config(tmp_path), None, typed=True, host=None)
    require_secret_consent(config(tmp_path, "[]"), None, typed=False, host=None)


def test_SE_13_secrets_that_come_on_top_of_a_built_in_config_are_confirmed_too() -> None:
    loaded = load_config("tiny", Path.cwd())
    require_secret_consent(loaded, None, typed=False, host=None)
    asking = replace(loaded, config=loaded.config.model_copy(update={"secrets": ("AWS_SECRET_ACCESS_KEY",)}))
    with pytest.raises(SecretsUntrusted, match=r"requests AWS_SECRET_ACCESS_KEY"):
        require_secret_consent(asking, None, typed=False, host=None)
