"""The page of `audio-used` covers models without a prompt."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "checks" / "audio-used.md"


def test_the_page_covers_encoder_decoder_models_without_a_prompt() -> None:
    why, advice = PAGE.read_text("utf-8").split("**Why.**")[1].split("**What to do.**")
    assert "encoder-decoder" in why and "prompt" in why
    assert "encoder-decoder" in advice and "prompt" in advice
