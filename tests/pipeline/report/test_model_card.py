"""The Markdown of a model card: values of a host show as text."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
import yaml

from pipeline.report.model import RunReport, Verdict
from pipeline.report.model_card import CardFacts, render_card

FACTS = CardFacts("me/speech", "speech", "someone/model", "main", (), {"r": 8}, True)
REPORT = RunReport("r-1", "c", "titan", Verdict.TRAINED, "/p", "TITAN RTX", "bf16: x", "1.0")


def card_of(card: str) -> str:
    lines = render_card(replace(FACTS, report=replace(REPORT, card=card))).splitlines()
    return next(line for line in lines if line.startswith("| card"))


@pytest.mark.parametrize(
    ("card", "shown"),
    [
        ("NVIDIA A100-SXM4-80GB (MIG 1g.10gb)", "NVIDIA A100-SXM4-80GB (MIG 1g.10gb)"),
        ("![x](http://evil/p.png)", r"!\[x\](http:\//evil/p.png)"),
        ("<img src=x onerror=alert(1)>", r"\<img src=x onerror=alert(1)\>"),
        ("see https://evil or www.evil", r"see https:\//evil or www\.evil"),
        ("a@evil `code` | cell", r"a\@evil \`code\` \| cell"),
        ("two\nlines\u2028three", "two lines three"),
        ("T\u200b4\u202e\U000e0041", "T\\u200b4\\u202e\\U000e0041"),
    ],
)
def test_SE_a_value_of_the_host_makes_no_link_image_html_or_row(card: str, shown: str) -> None:
    assert card_of(card) == f"| card | {shown} |"


def test_SE_invisible_characters_are_escaped_and_yaml_and_python_read_the_same_name() -> None:
    base = "org/\u200bname\u202e\x9b\U000e0041"
    text = render_card(replace(FACTS, base=base))
    assert all(char.isprintable() for char in text.replace("\n", ""))
    assert yaml.safe_load(text.split("---")[1])["base_model"] == base
    load = next(line for line in text.splitlines() if line.startswith("model ="))
    assert base in [node.value for node in ast.walk(ast.parse(load)) if isinstance(node, ast.Constant)]


def test_SE_the_name_of_a_base_model_stays_in_its_code_span() -> None:
    text = render_card(replace(FACTS, base="a`` [x](http://evil)\n# b", title="<b>t"))
    assert "A LoRA adapter of ``` a`` [x](http://evil) # b ``` at revision `main`" in text
    assert "\n# \\<b\\>t\n" in text


LORA = {"base_model.model.roberta.encoder.layer.0.attention.self.query.lora_A.weight": (8, 64)}
PREFIX = "base_model.model."


@pytest.mark.parametrize(
    ("settings", "shapes", "call"),
    [
        (
            {"task_type": "SEQ_CLS"},
            {**LORA, f"{PREFIX}classifier.dense.weight": (64, 64), f"{PREFIX}classifier.out_proj.weight": (4, 64)},
            'AutoModelForSequenceClassification.from_pretrained("b", num_labels=4)',
        ),
        (
            {"task_type": "SEQ_CLS"},
            {f"{PREFIX}score.weight": (7, 32)},
            'AutoModelForSequenceClassification.from_pretrained("b", num_labels=7)',
        ),
        (
            {"task_type": "SEQ_CLS"},
            {f"{PREFIX}hubert.encoder.layers.0.lora_A.weight": (8, 64), f"{PREFIX}classifier.weight": (6, 256)},
            'AutoModelForAudioClassification.from_pretrained("b", num_labels=6)',
        ),
        ({"task_type": "SEQ_CLS"}, LORA, 'AutoModelForSequenceClassification.from_pretrained("b")'),
        (
            {"task_type": "TOKEN_CLS"},
            {f"{PREFIX}classifier.weight": (9, 32)},
            'AutoModelForTokenClassification.from_pretrained("b", num_labels=9)',
        ),
        ({"task_type": "QUESTION_ANS"}, LORA, 'AutoModelForQuestionAnswering.from_pretrained("b")'),
        ({"task_type": "FEATURE_EXTRACTION"}, LORA, 'AutoModel.from_pretrained("b")'),
        ({"task_type": "CAUSAL_LM"}, {f"{PREFIX}score.weight": (7, 32)}, 'AutoModelForCausalLM.from_pretrained("b")'),
        (
            {
                "task_type": None,
                "auto_mapping": {
                    "base_model_class": "HubertForSequenceClassification",
                    "parent_library": "transformers.models.hubert.modeling_hubert",
                },
            },
            LORA,
            'HubertForSequenceClassification.from_pretrained("b")',
        ),
    ],
)
def test_the_base_model_is_loaded_with_the_class_of_the_adapter_s_task(
    settings: dict[str, object], shapes: dict[str, tuple[int, ...]], call: str
) -> None:
    facts = CardFacts("me/speech", "speech", "b", None, (), settings, False, shapes=shapes)
    assert f"PeftModel.from_pretrained({call}, " in render_card(facts)
