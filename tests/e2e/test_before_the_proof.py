"""What the script lacks on the host is reported before the proof, by `plan` and by `verify --no-proof`."""

from __future__ import annotations

import pytest

from tests.e2e.user import User
from tests.lab.sshd import Sshd


@pytest.fixture
def project(user: User, sshd: Sshd) -> User:
    user.write_host_file("titan", sshd)
    return user


def found(user: User, check: str, verb: str, *words: str) -> list[str]:
    result = user.run_pipeline(verb, "--host", "titan", "--config", "plain", *words, "--json")
    return [one["message"].partition(", which")[0] for one in result.json["findings"] if one["check"] == check]


LOOKS = [("plan",), ("verify", "--no-proof")]


def test_all_packages_that_a_module_lacks_are_reported_before_the_proof(project: User) -> None:
    folder = project.project / "speech"
    folder.mkdir()
    (folder / "__main__.py").write_text("import no_such_one\nfrom .reading import read\n")
    (folder / "reading.py").write_text("import no_such_two\n")
    config = project.project / "configs/plain.yaml"
    for command in ("python -m speech --epochs 1", "torchrun --nproc-per-node 1 -m speech"):
        config.write_text(f"project: .\ncommand: {command}\n")
        lacking = [found(project, "packages", *words) for words in LOOKS]
        assert lacking == [["speech/__main__.py imports no_such_one and speech/reading.py imports no_such_two"]] * 2, (
            command
        )


def test_a_tracker_without_a_key_stops_the_run_before_the_proof(project: User, sshd: Sshd) -> None:
    script = "from pathlib import Path\nPath('started').touch()\nimport wandb\nwandb.login()\n"
    (project.project / "train.py").write_text(script)
    (project.project / "configs/plain.yaml").write_text("project: .\ncommand: python train.py\n")
    words = ["wandb.login needs an API key of Weights and Biases"]
    looks = [[one.partition(",")[0] for one in found(project, "tracker", *each)] for each in (*LOOKS, ("run",))]
    assert looks == [words] * 3
    assert not list(sshd.home.rglob("started")), "not even for a proof"
