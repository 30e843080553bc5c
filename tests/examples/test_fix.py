"""Each example fails with its error, trains after `pipeline fix`, and is restored by `--undo`."""

from __future__ import annotations

import pytest

from tests.examples.cases import CASES, UNSCALE
from tests.examples.driver import CARD, Example, copy_example, falls
from tests.lab.threads import LEFT

pytestmark = [pytest.mark.train, pytest.mark.timeout(900)]

ALL = """
project: .
command: [python, --version]
fixers:
  tokenizer: {source: titan-phi4/mirror}
  data-collator: {path: titan-phi4/src/AudioDataCollator.py, copies: [titan-phi4/AudioDataCollator.py]}
"""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_unmodified_example_fails_with_the_literal_error_which_the_catalog_names(case, example, tmp_path):
    one = example(case.name)
    ran = one.train()
    assert ran.exit != 0
    assert case.error in ran.stderr
    (tmp_path / "train.log").write_text(ran.text)
    diagnosis = one.pipeline("diagnose", str(tmp_path / "train.log")).json
    assert diagnosis["findings"][0]["check"] == case.check


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_trains_after_fix_and_a_second_fix_changes_nothing_and_undo_restores_it(case, example):
    one = example(case.name)
    before = one.files()
    assert one.fix().exit == 0
    fixed = one.files()
    again = one.fix()
    assert again.json["changed"] == []
    assert one.files() == fixed
    ran = one.train()
    assert ran.exit == 0, ran.text
    assert LEFT not in ran.stderr
    assert falls(ran.losses)
    undone = one.fix("--undo")
    assert undone.exit == 0
    assert sorted(undone.json["undone"]) == sorted(path for path in fixed if fixed[path] != before[path])
    left = one.files()
    assert {path: left[path] for path in before} == before


def test_each_fixer_of_titan_phi4_uncovers_the_next_fault(example):
    one = example("titan-phi4")
    for fixer, next_error in (
        ("tokenizer", "TypeError: Phi4MMProcessor.__call__() got an unexpected keyword argument 'sampling_rate'"),
        ("data-collator", "ValueError: --tf32 requires Ampere or a newer GPU arch"),
        ("launch-flags", UNSCALE),
    ):
        assert one.fix("--only", fixer).exit == 0
        ran = one.train()
        assert ran.exit != 0
        assert next_error in ran.stderr, fixer
    assert one.fix("--only", "trainable-fp32").exit == 0
    assert falls(one.train().losses)
    assert one.fix("--only", "bf16-to-fp16").json["changed"] == ["src/model_utility_configs.py"]


@pytest.mark.parametrize("untouched", [True, False], ids=["untouched", "fixed"])
def test_kaggle_distill_announces_each_mode_and_scales_the_loss_only_where_it_is_float16(untouched, example):
    one = example("kaggle-distill")
    if not untouched:
        assert one.fix().exit == 0
    announced, ended = {}, {}
    for mode in ("bf16", "fp16-mixed", "fp16-pure", "fp32"):
        ran = one.train_with("--precision", mode, "--steps", "3")
        (announced[mode],) = [line for line in ran.stdout.splitlines() if line.startswith(f"precision {mode}: ")]
        ended[mode] = ran.exit == 0
    scaled = [mode for mode, line in announced.items() if line.endswith("scaler on")]
    halves = [mode for mode, line in announced.items() if "trained torch.float16" in line]
    if untouched:
        assert scaled == ["bf16", "fp16-mixed", "fp16-pure", "fp32"]
        assert halves == [mode for mode in ended if not ended[mode]] == ["fp16-mixed", "fp16-pure"]
    else:
        assert scaled == ["fp16-mixed"]
        assert halves == []
        assert all(ended.values())


def test_one_fix_repairs_a_project_with_the_faults_of_all_examples(tmp_path):
    root = tmp_path / "everything"
    parts = [copy_example(case.name, root) for case in CASES]
    (root / "configs").mkdir()
    (root / "configs" / "all.yaml").write_text(ALL)
    whole = Example("all", root, root / "home")
    before = whole.files()
    ran = whole.pipeline("fix", ".", "--config", "all", "--card", CARD)
    assert ran.exit == 0, ran.text
    assert whole.fix().json["changed"] == []
    for part in parts:
        trained = part.train()
        assert trained.exit == 0, trained.text
        assert falls(trained.losses), part.name
    assert whole.fix("--undo").exit == 0
    after = whole.files()
    assert {path: after[path] for path in before} == before
