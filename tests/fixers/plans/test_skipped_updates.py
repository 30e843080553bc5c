"""A program stays in bfloat16 if it skips the step, and with it the update of the loss scaler, after clipping."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixers.plans.program_files import ACCELERATE, LOOP, changed, planned

CLIPPED = "    norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)\n"
STEP = "    optimizer.step()\n"
REASON = "skips the step after gradients were unscaled"
SKIPS = {
    "continue": "    if torch.logical_or(norm.isnan(), norm.isinf()):\n        continue\n" + STEP,
    "no step": "    if torch.isfinite(norm):\n        optimizer.step()\n    optimizer.zero_grad()\n",
    "a nested clipping": (
        "    if accelerator.sync_gradients:\n        norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)\n"
        "    if not math.isfinite(norm):\n        continue\n" + STEP
    ),
}
UPDATES = {
    "a step in both branches": "    if norm.isnan():\n        optimizer.step()\n        continue\n" + STEP,
    "a warning": "    if norm.isnan():\n        print('nan')\n" + STEP,
    "an error": "    if norm.isnan():\n        raise ValueError('nan')\n" + STEP,
    "a test after the step": STEP + "    if norm.isnan():\n        continue\n",
    "another test": "    if step < warmup:\n        continue\n" + STEP,
}


@pytest.mark.parametrize("code", SKIPS.values(), ids=SKIPS)
def test_a_loop_that_skips_the_step_after_clipping_stays_in_bfloat16(tmp_path: Path, code: str) -> None:
    plan = planned(tmp_path, {"train.py": ACCELERATE.replace(STEP, CLIPPED + code)})
    assert changed(plan) == {}
    assert any(REASON in each.message for each in plan.findings)


@pytest.mark.parametrize("code", UPDATES.values(), ids=UPDATES)
def test_a_loop_that_always_makes_a_step_after_clipping_is_converted(tmp_path: Path, code: str) -> None:
    plan = planned(tmp_path, {"train.py": ACCELERATE.replace(STEP, CLIPPED + code)})
    assert 'mixed_precision="fp16"' in changed(plan)["train.py"]


def test_a_loss_that_is_tested_before_clipping_restricts_nothing(tmp_path: Path) -> None:
    tested = "    loss = model(batch).mean()\n    if not torch.isfinite(loss):\n        continue\n" + CLIPPED + STEP
    plan = planned(tmp_path, {"train.py": ACCELERATE.replace(STEP, tested)})
    assert 'mixed_precision="fp16"' in changed(plan)["train.py"]


def test_a_plain_loop_that_skips_the_step_gets_no_scaler(tmp_path: Path) -> None:
    skips = (
        "    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "    if torch.isnan(norm):\n        continue\n" + STEP
    )
    plan = planned(tmp_path, {"train.py": LOOP.replace(STEP, skips)})
    assert changed(plan) == {}
    assert any(REASON in each.message for each in plan.findings)


CONFIG = "compute_environment: LOCAL\ndistributed_type: 'NO'\nmixed_precision: bf16\n"
COMMAND = "accelerate launch --config_file conf.yaml train.py{option}\n"
ASKS = ACCELERATE.replace('"bf16"', "args.mixed_precision")


@pytest.mark.parametrize(
    "test", ["if scaler is not None:\n{0}    else:\n{1}", "if scaler is None:\n{1}    else:\n{0}"], ids=["else", "body"]
)
def test_a_step_without_a_loss_scaler_may_be_skipped(tmp_path: Path, test: str) -> None:
    scaled = (
        "        self.scaler.unscale_(optimizer)\n        self.scaler.step(optimizer)\n        self.scaler.update()\n"
    )
    plain = "        norm = clip_grad_norm_(weights, 1.0)\n        if norm.isfinite():\n            optimizer.step()\n"
    plan = planned(tmp_path, {"train.py": ACCELERATE.replace(STEP, "    " + test.format(scaled, plain))})
    assert 'mixed_precision="fp16"' in changed(plan)["train.py"]


def test_a_step_that_is_skipped_with_a_loss_scaler_is_found_beside_one_without(tmp_path: Path) -> None:
    both = (
        "    if scaler is not None:\n        scaler.unscale_(optimizer)\n        norm = clip_grad_norm_(weights, 1.0)\n"
        "        if norm.isnan():\n            continue\n        scaler.step(optimizer)\n        scaler.update()\n"
        "    else:\n        optimizer.step()\n"
    )
    plan = planned(tmp_path, {"train.py": ACCELERATE.replace(STEP, both)})
    assert changed(plan) == {}


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ((" --mixed_precision no", " --mixed_precision fp16"), False),
        ((" --mixed_precision fp16", ""), True),
        (("", ""), True),
    ],
)
def test_a_config_whose_mixed_precision_every_command_overrides_is_left(
    tmp_path: Path, options: tuple[str, ...], changes: bool
) -> None:
    documents = {f"README{at}.md": COMMAND.format(option=option) for at, option in enumerate(options)}
    plan = planned(tmp_path, {"train.py": ASKS, "conf.yaml": CONFIG, **documents})
    assert ("conf.yaml" in changed(plan)) is changes
    assert any("every command overrides" in each.reason for each in plan.skipped) is not changes
