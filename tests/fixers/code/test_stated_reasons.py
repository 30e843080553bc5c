"""A comment or message beside bfloat16 that says why it must not be float16 is respected, and reported."""

from __future__ import annotations

import pytest

from tests.fixers.code.test_left_alone import TORCH, planned

COMMENT = TORCH + "# bfloat16: the logits overflow in fp16\nx = x.to(torch.bfloat16)\n"
MUST = TORCH + "model = load(name, torch_dtype=torch.bfloat16,)  # Must use BFloat 16\n"
TRAILING = TORCH + "x = x.to(torch.bfloat16)  # float16 gives NaN here\n"
WARNED = TORCH + 'logger.warning("this kernel requires bfloat16")\nx = x.to(torch.bfloat16)\n'


@pytest.mark.parametrize("text", [COMMENT, TRAILING, WARNED, MUST])
def test_a_reason_against_float16_in_the_code_becomes_a_warning(text: str) -> None:
    outcome = planned(text)
    assert outcome.change is None
    assert ["gives a reason" in finding.message for finding in outcome.findings] == [True]


@pytest.mark.parametrize(
    "text", [TORCH + "# replace nan by zero\nx = x.to(torch.bfloat16)\n", COMMENT.replace("\nx =", "\ny = 1\nx =")]
)
def test_a_comment_about_something_else_or_above_another_statement_is_no_reason(text: str) -> None:
    assert planned(text).change is not None
