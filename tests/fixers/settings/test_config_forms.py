"""Settings in YAML and JSON, one form per row: changed, kept, or only reported."""

from typing import get_args

import pytest

from fixers.frame.target import Target
from fixers.plans.file_plan import plan_file
from fixers.settings import mixed_precision_config
from fixers.settings.mixed_precision_config import RUN_CONFIG_KEYS, RUN_CONFIG_PRECISIONS
from pipeline.config.model import RunConfig
from tests.fixers.casebook import TITAN_RTX


def outcome(path, text):
    planned = plan_file(path, text.encode(), [mixed_precision_config], Target(TITAN_RTX))
    after = planned.change.after.decode() if planned.change else text
    return after, [(finding.where.rpartition(":")[2], finding.message, finding.hint) for finding in planned.findings]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("dtype: bfloat16\n", "dtype: float16\n"),
        ("torch_dtype: 'torch.bfloat16'\n", "torch_dtype: 'torch.float16'\n"),
        ('precision: "bf16-mixed"\n', 'precision: "16-mixed"\n'),
        ("precision: bf16_mixed\n", "precision: fp16_mixed\n"),
        ("mixed_precision: BF16\n", "mixed_precision: FP16\n"),
        ("trainer:\n  precision: bf16\n", "trainer:\n  precision: 16\n"),
        ("a:\n  trainer:\n    precision: bf16\n", "a:\n  trainer:\n    precision: 16\n"),
        ("precision: {training: bf16, inference: bfloat16}\n", "precision: {training: fp16, inference: float16}\n"),
        ("precision: {bf16: bf16}\n", "precision: {bf16: bf16}\n"),
        ("precision: {bf16: fp32}\n", "precision: {bf16: fp32}\n"),
        ("reduce_dtype: bf16\n", "reduce_dtype: fp32\n"),
        ("reduce_dtype: torch.bfloat16\n", "reduce_dtype: torch.float32\n"),
        ("name: bf16\nnote: bfloat16\n", "name: bf16\nnote: bfloat16\n"),
        ("- dtype: bf16\n- [{dtype: bf16}]\n", "- dtype: fp16\n- [{dtype: fp16}]\n"),
        ("a: &x {dtype: bf16}\nb: *x\n", "a: &x {dtype: fp16}\nb: *x\n"),
        ("bf16: true\n", "fp16: true\n"),
        ("bf16: yes\n", "fp16: yes\n"),
        ("bf16: auto\n", "fp16: true\n"),
        ("bf16: full\n", "fp16: true\n"),
        ("bf16: false\n", "bf16: false\n"),
        ("bf16:\n", "bf16:\n"),
        ("no_bf16: true\ndisable_bf16: true\ndowncast_bf16: true\n",) * 2,
        ("pure_bf16: true\n", "fp16: true\n"),
        ("bf16_full_eval: True\n", "fp16_full_eval: True\n"),
        ("bfloat16: true\n", "float16: true\n"),
        ("'bf16': true\n", "'fp16': true\n"),
        ("bf16: true\nfp16: false\n", "bf16: false\nfp16: true\n"),
        ("bf16: True\nfp16: False\n", "bf16: False\nfp16: True\n"),
        ("bf16: YES\nfp16: NO\n", "bf16: NO\nfp16: YES\n"),
        ("bf16: on\nfp16: off\n", "bf16: off\nfp16: on\n"),
        ("bf16: 1\nfp16: 0\n", "bf16: 0\nfp16: 1\n"),
        ("bf16: true\nfp16: true\n", "bf16: false\nfp16: true\n"),
        ("bf16: true\nfp16:\n", "bf16: false\nfp16: true\n"),
        ("bf16: true\nbf16_full_eval: true\n", "fp16: true\nfp16_full_eval: true\n"),
        ("pure_bf16: true\nbf16: true\n", "pure_bf16: false\nfp16: true\n"),
        ("pure_bf16: true\nbf16: false\n", "fp16: true\nbf16: false\n"),
        ("tf32: true\n", "tf32: false\n"),
        ("allow-tf32: Yes\n", "allow-tf32: No\n"),
        ("tf32: false\n", "tf32: false\n"),
        ("attn_implementation: flash_attention_2\n", "attn_implementation: sdpa\n"),
        ("_attn_implementation: 'flash_attention_3'\n", "_attn_implementation: 'sdpa'\n"),
        ("attn_impl: fa2\n", "attn_impl: sdpa\n"),
        ("attn_implementation: eager\n", "attn_implementation: eager\n"),
        ("attn_implementation: true\n", "attn_implementation: true\n"),
        ("flash_attn: true\n", "flash_attn: false\n"),
        ("use_flash_attention_2: 1\n", "use_flash_attention_2: 0\n"),
        ("flash_attn: fa2\n", "flash_attn: sdpa\n"),
        ("flash_attn: false\n", "flash_attn: false\n"),
        ("disable_flash_attn: false\n", "disable_flash_attn: true\n"),
        ("no_flash_attention2: Off\n", "no_flash_attention2: On\n"),
        ("disable_flash_attn: true\n", "disable_flash_attn: true\n"),
        ("flash_attn: fa2\nsample_packing: true\n", "flash_attn: sdpa\nsample_packing: false\n"),
        ("padding_free: True\nflash_attn: true\n", "padding_free: False\nflash_attn: false\n"),
        ("disable_flash_attn: no\nneat_packing: true\n", "disable_flash_attn: yes\nneat_packing: false\n"),
        ("flash_attn: false\nsample_packing: true\n",) * 2,
        ("sample_packing: true\nmodel: {attn: x}\n",) * 2,
        ("? [a]\n: bf16\ndtype: bf16\n", "? [a]\n: bf16\ndtype: fp16\n"),
    ],
)
def test_each_setting_is_rewritten_as_listed(before, after):
    assert outcome("conf.yaml", before) == (after, [])


AS_WRITTEN = "'bf16' cannot be edited in place (no bfloat16 on this card)"
NO_COUNTERPART = "bf16_true has no safe float16 equivalent, and the value for 16-mixed is unknown"


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("a: 1\nprecision: bf16_true\n", "2", NO_COUNTERPART, "precision: 16-mixed"),
        ("trainer: {precision: bf16_true}\n", "1", NO_COUNTERPART, "precision: 16-mixed"),
        ("use_bf16: true\n", "1", "use_bf16 selects bfloat16; which key selects float16 is unknown", ""),
        ("bf16: true\nfp16: [1]\n", "1", "fp16 is set beside bf16, and its value is not a scalar; left unchanged", ""),
        ("a: b\ndtype: >-\n  bf16\n", "2", AS_WRITTEN, ""),
        ('dtype: "bf\\x31\\x36" # bf16\n', "1", AS_WRITTEN, ""),
    ],
)
def test_undecidable_forms_are_reported_with_their_line_and_not_changed(text, line, message, hint):
    assert outcome("conf.yaml", text) == (text, [(line, message, hint)])


def test_a_run_config_of_halfstep_keeps_its_precision_setting():
    ours = "precision: bf16\nlora: {r: 8}\nfixers:\n  x: {dtype: bf16}\nmodel: {dtype: bf16}\n"
    assert outcome("conf.yaml", ours) == (ours.replace("model: {dtype: bf16}", "model: {dtype: fp16}"), [])


@pytest.mark.parametrize(
    "text",
    [
        "seed: 1\nprecision: bfloat16\nlora:\n  r: 8\n  target_modules: [q_proj]\n",
        "precision: bfloat16\nlora: {r: 8}\ntrain: {epochs: 3}\n",
        "lora: {r: 8}\nlogs: {every: 5}\nbatch_size: 4\nprecision: bf16\n",
    ],
    ids=["keys of its own", "a precision that no run config has", "two shared sections"],
)
def test_a_projects_config_that_shares_keys_with_run_configs_selects_float16(text):
    after = text.replace("bfloat16", "float16").replace("bf16", "fp16")
    assert outcome("conf.yaml", text) == (after, [])


def test_the_keys_of_run_configs_are_those_of_their_model():
    assert RunConfig.model_fields.keys() == RUN_CONFIG_KEYS
    assert set(get_args(RunConfig.model_fields["precision"].annotation)) == RUN_CONFIG_PRECISIONS


BLOCK = '"loss_scale": 0, "loss_scale_window": 1000, "initial_scale_power": 16, "hysteresis": 2, "min_loss_scale": 1}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"bf16": {"enabled": true}}', '{"bf16": {"enabled": false}, "fp16": {"enabled": true, ' + BLOCK + "}"),
        ('{"bf16": {"enabled": "auto"}}', '{"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto", ' + BLOCK + "}"),
        ('{"bf16": {"enabled": false}}',) * 2,
        ('{"bf16": {"enabled": [true]}}',) * 2,
        ('{"bf16": {"x": true}}',) * 2,
        (
            '{"bf16": {"enabled": true}, "fp16": {"enabled": false}}',
            '{"bf16": {"enabled": false}, "fp16": {"enabled": true}}',
        ),
        (
            '{"bf16": {"enabled": true}, "fp16": {"enabled": true}}',
            '{"bf16": {"enabled": false}, "fp16": {"enabled": true}}',
        ),
        (
            '{"bf16": {"enabled": true}, "fp16": {"enabled": "auto"}}',
            '{"bf16": {"enabled": false}, "fp16": {"enabled": true}}',
        ),
        (
            '{"bf16": {"enabled": "auto"}, "fp16": {"enabled": false}}',
            '{"bf16": {"enabled": false}, "fp16": {"enabled": true}}',
        ),
        ('{"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}',) * 2,
        ('{"bf16": {"enabled": "auto"}, "fp16": {"enabled": true}}',) * 2,
        ('{"fp16": {}, "bf16": {"enabled": true}}', '{"fp16": {}, "bf16": {"enabled": false}}'),
        ('{"fp16": 1, "bf16": {"enabled": true}}', '{"fp16": 1, "bf16": {"enabled": false}}'),
        (
            '{\n  "a": 1,\n  "bf16": {\n    "enabled": true\n  }\n}\n',
            '{\n  "a": 1,\n  "bf16": {\n    "enabled": false\n  },\n  "fp16": {\n    "enabled": true,\n    '
            + BLOCK.replace(", ", ",\n    ")[:-1]
            + "\n  }\n}\n",
        ),
        (
            '{\n  "bf16": {"enabled": true}\n}\n',
            '{\n  "bf16": {"enabled": false},\n  "fp16": {"enabled": true, ' + BLOCK + "\n}\n",
        ),
    ],
)
def test_deepspeeds_block_of_bfloat16_becomes_one_of_float16_with_a_loss_scale(before, after):
    assert outcome("ds.json", before) == (after, [])


def test_an_inserted_yaml_block_has_the_layout_of_the_other():
    before = "zero: 1\nbf16:\n  enabled: true # why\r\nafter: 2\n"
    rows = "".join(f"\r\n  {row}" for row in BLOCK[:-1].replace('"', "").split(", "))
    after = "zero: 1\nbf16:\n  enabled: false # why\nfp16:\r\n  enabled: true" + rows + "\r\nafter: 2\n"
    assert outcome("ds.yaml", before.replace("\n", "\r\n").replace("\r\r", "\r")) == (
        after.replace("\r\n", "\n").replace("\n", "\r\n"),
        [],
    )
