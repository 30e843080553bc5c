"""The error of each unmodified example, and the failure if one of its fixers is off."""

from __future__ import annotations

from dataclasses import dataclass, field

UNSCALE = "ValueError: Attempting to unscale FP16 gradients."


@dataclass(frozen=True)
class Case:
    """One example. `error` is the text of its error, `check` the name of that error in the catalog.

    `off` maps each fixer to the check that `run` reports if this fixer is off. Fixers whose effect is visible only on a
    card are left out.
    """

    name: str
    error: str
    check: str
    off: dict[str, str] = field(default_factory=dict)


CASES = (
    Case(
        "titan-phi4",
        "Exception: EOF while parsing a string at line",
        "tokenizer-json-corrupt",
        {
            "tokenizer": "tokenizer-json-corrupt",
            "data-collator": "phi4-sampling-rate",
            "launch-flags": "tf32-ampere",
            "bf16-to-fp16": "bf16-left",
            "trainable-fp32": "fp16-unscale",
        },
    ),
    Case(
        "lambda-finetune",
        "TypeError: Trainer.__init__() got an unexpected keyword argument 'tokenizer'",
        "api-tokenizer",
        {"trainer-arguments": "api-tokenizer", "trainable-fp32": "fp16-unscale"},
    ),
    Case("kaggle-distill", UNSCALE, "fp16-unscale", {"trainable-fp32": "fp16-unscale"}),
    Case(
        "fsdp-diffusion",
        "RuntimeError: Found dtype Float but expected Half",
        "found-float-expected-half",
        {"loss-fp32": "found-float-expected-half", "bf16-to-fp16": "reduce-dtype"},
    ),
    Case(
        "accelerate-tts",
        "RuntimeError: expected dtype float for `end` but got dtype c10::BFloat16",
        "lerp-end-bf16",
        {"mixed-precision-config": "autocast", "trainable-fp32": "fp16-unscale"},
    ),
)
