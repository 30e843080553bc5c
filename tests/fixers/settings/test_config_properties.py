"""For any configuration, the result parses and a second pass changes nothing; only the planned edits are made."""

import json

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fixers.frame.target import Target
from fixers.plans.site_plan import plan_file
from fixers.settings import launch_flags, mixed_precision_config
from tests.fixers.casebook import TITAN_RTX

TARGET = Target(TITAN_RTX)
KEYS = ["bf16", "fp16", "pure_bf16", "tf32", "mixed_precision", "torch_dtype", "reduce_dtype", "precision", "trainer"]
KEYS += ["flash_attention", "sample_packing", "attn_implementation", "enabled", "name", "bf16_full_eval", "use_bf16"]
WORDS = [
    "bf16",
    "fp16",
    "bfloat16",
    "bf16-mixed",
    "bf16-true",
    "auto",
    "flash_attention_2",
    "no",
    "x",
    "torch.bfloat16",
]
VALUES = st.recursive(
    st.booleans() | st.none() | st.sampled_from(WORDS) | st.integers(0, 9),
    lambda inner: st.dictionaries(st.sampled_from(KEYS), inner, max_size=5) | st.lists(inner, max_size=3),
    max_leaves=12,
)
CONFIGS = st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=6)


def fixed(path, data, fixers=(mixed_precision_config, launch_flags)):
    outcome = plan_file(path, data, fixers, TARGET)
    assert all(finding.severity != "error" for finding in outcome.findings), outcome.findings
    return outcome.change.after if outcome.change else data


@settings(max_examples=250, deadline=None)
@given(CONFIGS, st.sampled_from([None, 2, 4]))
def test_json_still_parses_and_a_second_pass_changes_nothing(config, indent):
    data = json.dumps(config, indent=indent).encode()
    after = fixed("args.json", data)
    json.loads(after)
    assert fixed("args.json", after) == after


@settings(max_examples=250, deadline=None)
@given(CONFIGS, st.booleans(), st.booleans())
def test_yaml_still_parses_and_a_second_pass_changes_nothing(config, flow, windows):
    text = yaml.safe_dump(config, default_flow_style=flow)
    data = (text.replace("\n", "\r\n") if windows else text).encode()
    after = fixed("a.yaml", data)
    yaml.safe_load(after)
    assert fixed("a.yaml", after) == after
    assert after.count(b"\r\n") == after.count(b"\n") or not windows


FLAGS = [
    "--bf16",
    "--fp16",
    "--bf16=true",
    "--tf32",
    "True",
    "False",
    "--mixed_precision",
    "bf16",
    "$P",
    "--torch_dtype",
]
FLAGS += [
    "bfloat16",
    "'bf16'",
    '"--bf16"',
    "\\\n",
    "\n",
    ";",
    "#",
    "P=bf16",
    "x.dtype=bf16",
    "--attn_impl",
    "flash_attn",
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(FLAGS), max_size=12), st.sampled_from(["a.sh", "Makefile", "Dockerfile"]))
def test_a_script_keeps_its_lines_and_a_second_pass_changes_nothing(words, path):
    lead = {"a.sh": "python t.py ", "Makefile": "all:\n\tpython t.py ", "Dockerfile": "RUN python t.py "}[path]
    data = (lead + " ".join(words) + "\n").encode()
    after = fixed(path, data)
    assert fixed(path, after) == after
    assert after.count(b"\n") == data.count(b"\n")
    assert len(after.split()) == len(data.split())
