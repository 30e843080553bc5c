"""fsdp-diffusion: two processes under FSDP, whose Huber loss meets a half prediction and a float target."""

from __future__ import annotations

import pytest

from pipeline.diagnosis.diagnose import diagnose_text
from tests.examples.driver import falls

NAME = "fsdp-diffusion"
SCRIPT = "src/train_diffusion.py"
LITERAL = "RuntimeError: Found dtype Float but expected Half"

pytestmark = [pytest.mark.train, pytest.mark.timeout(600)]


def test_it_fails_with_the_literal_error_and_trains_once_it_is_fixed(example):
    diffusion = example(NAME)
    before = diffusion.files()
    broken = diffusion.train()
    assert broken.exit != 0
    assert LITERAL in broken.text
    assert diagnose_text(broken.text)[0].check == "found-float-expected-half"

    fixed = diffusion.fix()
    assert fixed.exit == 0, fixed.text
    script = (diffusion.root / SCRIPT).read_text()
    assert "F.huber_loss(model(noisy, time).float()" in script
    assert "reduce_dtype=torch.float32" in script
    assert ".to(torch.float16)" in script
    assert 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))' in script
    assert "bfloat16" not in script
    trained = diffusion.train()
    assert trained.exit == 0, trained.text
    assert len(trained.losses) == 60
    assert falls(trained.losses, to=0.5)
    assert (diffusion.root / "out" / "best.pt").is_file()

    after = diffusion.files()
    assert diffusion.fix().exit == 0
    assert diffusion.files() == after != before
    assert diffusion.fix("--undo").exit == 0
    assert diffusion.files() == before


def test_one_run_goes_from_broken_to_trained_and_the_next_has_nothing_to_do(example):
    diffusion = example(NAME)
    before = diffusion.files()
    first = diffusion.go()
    assert first.exit == 0, first.text
    assert first.stages == dict.fromkeys(("sync", "environment", "fix", "verify", "train", "logs"), "done")
    assert first.json["job"]["state"] == "succeeded"
    assert falls(diffusion.job_losses(), to=0.5)
    assert diffusion.files() == before

    second = diffusion.go()
    assert second.exit == 0, second.text
    assert set(second.stages.values()) == {"skipped"}
    assert second.json["run"] == first.json["run"]


@pytest.mark.parametrize(
    ("fixer", "named"), [("loss-fp32", "found-float-expected-half"), ("bf16-to-fp16", "reduce-dtype")]
)
def test_without_a_fixer_the_failure_is_named_and_healed(example, fixer, named):
    healed = example(NAME).go("--set", f"fixers.{fixer}=off")
    assert healed.exit == 0, healed.text
    assert healed.json["job"]["state"] == "succeeded"
    told = next(one for one in healed.json["findings"] if one["check"] == "healed")
    assert told["message"].startswith(f"{named}:")
    assert fixer in told["message"]


@pytest.mark.parametrize("fixer", ["local-rank", "trainable-fp32"])
def test_on_one_machine_these_fixers_are_not_what_it_lacks(example, fixer):
    """RANK is LOCAL_RANK here, and the weights that FSDP shards are float32 already."""
    ran = example(NAME).go("--set", f"fixers.{fixer}=off")
    assert ran.exit == 0, ran.text
    assert "healed" not in ran.checks
