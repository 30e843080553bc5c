"""A hint can be typed as it stands."""

from __future__ import annotations

import pytest

from pipeline.messages.hints import typed_out

NAMES = "--host titan --config 'my run'"


@pytest.mark.parametrize(
    ("hint", "typed"),
    [
        ("pipeline run", f"pipeline run {NAMES}"),
        ("pipeline run --until verify", f"pipeline run {NAMES} --until verify"),
        ("if meant: pipeline run --force sync", f"if meant: pipeline run {NAMES} --force sync"),
        ("pipeline fix --only environment", f"pipeline fix {NAMES} --only environment"),
        ("pipeline run --host a --config b", "pipeline run --host a --config b"),
        ("pipeline fix . --card 7.5", "pipeline fix . --card 7.5"),
        ("pipeline stop plain-1", "pipeline stop plain-1"),
        ("", ""),
    ],
)
def test_names_are_added_where_a_verb_needs_them(hint: str, typed: str) -> None:
    assert typed_out(hint, "titan", "my run") == typed


def test_nothing_is_made_up_where_no_config_is_known() -> None:
    assert typed_out("pipeline run", "titan", "") == "pipeline run"
