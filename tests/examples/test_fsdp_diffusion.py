"""fsdp-diffusion: the fixes of a script for two processes, and the best model that it keeps."""

from __future__ import annotations

import pytest

from tests.examples.driver import falls

NAME = "fsdp-diffusion"

pytestmark = [pytest.mark.train, pytest.mark.timeout(600)]


@pytest.mark.parametrize("schedule", ["cosine", "step"])
def test_the_fixed_example_keeps_its_best_model_with_either_schedule(example, schedule):
    diffusion = example(NAME)
    assert diffusion.fix().exit == 0
    script = (diffusion.root / "src" / "train_diffusion.py").read_text()
    assert "F.huber_loss(model(noisy, time).float()" in script
    assert "reduce_dtype=torch.float32" in script
    assert ".to(torch.float16)" in script
    assert 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))' in script
    assert "bfloat16" not in script
    trained = diffusion.train_with("--schedule", schedule)
    assert trained.exit == 0, trained.text
    assert len(trained.losses) == 60
    assert falls(trained.losses, to=0.5)
    assert (diffusion.root / "out" / "best.pt").is_file()


@pytest.mark.parametrize("fixer", ["local-rank", "trainable-fp32"])
def test_on_one_machine_the_example_does_not_need_these_fixers(example, fixer):
    """RANK equals LOCAL_RANK on one machine, and the weights that FSDP shards are float32 already."""
    ran = example(NAME).go("--set", f"fixers.{fixer}=off")
    assert ran.exit == 0, ran.text
    assert "healed" not in ran.checks
