"""`pipeline run` trains each broken example, cures failures, and has nothing to do the second time."""

from __future__ import annotations

import pytest

from tests.examples.cases import CASES
from tests.examples.driver import falls
from tests.lab.hub import Hub, Repository, serve

pytestmark = [pytest.mark.train, pytest.mark.timeout(900)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_run_goes_from_broken_to_trained_and_then_has_nothing_to_do(case, example):
    one = example(case.name)
    before = one.files()
    first = one.go()
    assert first.exit == 0, first.text
    assert set(first.stages.values()) == {"done"}
    assert first.json["job"]["state"] == "succeeded"
    assert "healed" not in first.checks
    assert falls(one.job_losses())
    assert one.files() == before
    second = one.go()
    assert second.exit == 0
    assert set(second.stages.values()) == {"skipped"}
    assert second.json["run"] == first.json["run"]
    assert len(one.job_logs()) == 1


@pytest.mark.parametrize(
    ("case", "fixer"),
    [(case, fixer) for case in CASES for fixer in case.off],
    ids=[f"{case.name} without {fixer}" for case in CASES for fixer in case.off],
)
def test_without_one_of_its_fixers_the_failure_is_diagnosed_and_cured(case, fixer, example):
    one = example(case.name)
    ran = one.go("--set", f"fixers.{fixer}=off")
    assert ran.exit == 0, ran.text
    (healed,) = [finding for finding in ran.json["findings"] if finding["check"] == "healed"]
    assert healed["message"].startswith(f"{case.off[fixer]}: ")
    assert ran.json["cures"][-1] == f"fixer:{fixer}"
    assert falls(one.job_losses())


def test_a_loss_in_float16_whose_gradients_are_finite_is_a_warning(example):
    ran = example("kaggle-distill").go("--set", "fixers.loss-fp32=off")
    assert ran.exit == 0, ran.text
    assert {f["severity"] for f in ran.json["findings"] if f["check"] == "loss-dtype"} == {"warning"}


def test_without_cures_the_failure_is_diagnosed_only(example):
    one = example("kaggle-distill")
    ran = one.go("--set", "fixers.trainable-fp32=off", "--no-heal")
    assert ran.exit == 23
    assert ran.checks[0] == "fp16-unscale"
    assert ran.stages["train"] == "pending"


def test_without_a_local_copy_the_tokenizer_comes_from_the_hub(example):
    one = example("titan-phi4")
    whole = (one.root / "mirror" / "tokenizer.json").read_bytes()
    (one.root / "mirror" / "tokenizer.json").unlink()
    repository = Repository({"tokenizer.json": whole}, frozenset({"tokenizer.json"}))
    with serve(Hub({"lab/tiny-phi4": repository})) as hub:
        online = {**hub.environment, "HF_HUB_OFFLINE": "0"}
        one.environment.update(online)
        named = ("--set", "fixers.tokenizer={repo: lab/tiny-phi4}")
        ran = one.go(*named, "--until", "fix")
        assert ran.exit == 0, ran.text
        assert ran.stages["fix"] == "done"
        fixed = one.fix(*named)
        assert fixed.exit == 0, fixed.text
    assert (one.root / "checkpoint" / "tokenizer.json").read_bytes() == whole
    copies = list((one.home / "halfstep" / "projects").glob("*/tree/checkpoint/tokenizer.json"))
    assert [path.read_bytes() for path in copies] == [whole]
