"""`init` for an ssh alias looks for torch on the host before it configures a virtual environment."""

from __future__ import annotations

import json
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from tests.e2e.test_host_names import names
from tests.e2e.user import User
from tests.lab.sshd import Sshd, nobody_listens

StartSshd = Callable[..., Sshd]
WORDS = ("init", "--config", "mine", "--script", "train.py", "--yes")


@pytest.fixture
def listing(user: User) -> User:
    """Return a user whose project lists its packages."""
    (user.project / "train.py").write_text("loss.backward()\noptimizer.step()\n")
    (user.project / "requirements.txt").write_text("torch\n")
    return user


@pytest.mark.parametrize(("has_torch", "fixers"), [(True, {}), (False, {"environment": "create"})])
def test_an_environment_is_configured_only_if_the_host_of_the_alias_lacks_torch(
    listing: User, start_sshd: StartSshd, tmp_path: Path, has_torch: bool, fixers: dict[str, str]
) -> None:
    venv.create(tmp_path / "env", symlinks=True)
    (tmp_path / "module/torch").mkdir(parents=True)
    (tmp_path / "module/torch/version.py").write_text("__version__ = '2.9.1'\n")
    module_path = {"PYTHONPATH": str(tmp_path / "module")} if has_torch else {}
    path = f"{tmp_path}/env/bin:/usr/bin:/bin"
    names(listing, "box", start_sshd("box", environment={"PATH": path, **module_path}))
    result = listing.run_pipeline(*WORDS)
    assert result.code == 0, result.err
    assert ("torch 2.9.1" if has_torch else "no torch") in result.out
    assert load_config("mine", listing.project).config.fixers.model_extra == fixers
    assert not (listing.project / "configs/hosts").exists()
    verb = "verify" if has_torch else "run"
    assert f"pipeline {verb} --host box --config mine" in result.out


def test_a_host_that_does_not_answer_is_noted_and_the_config_is_written(listing: User) -> None:
    (listing.home / ".ssh").mkdir()
    with nobody_listens() as port:
        (listing.home / ".ssh/config").write_text(f"Host box\n  HostName 127.0.0.1\n  Port {port}\n")
        result = listing.run_pipeline(*WORDS, "--json")
    assert result.code == 0 and "could not be queried" in result.out + result.err
    assert load_config("mine", listing.project).config.fixers.model_extra == {"environment": "create"}
    assert json.loads(result.out)["host"] == "box"
