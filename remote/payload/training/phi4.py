"""Phi-4-multimodal for audio: its vision tower is never loaded."""

from __future__ import annotations

from typing import Any, ClassVar

from transformers import Phi4MultimodalForCausalLM


class Phi4Audio(Phi4MultimodalForCausalLM):  # type: ignore[misc]
    """Phi-4-multimodal without the vision tower, 0.44 billion parameters that neither audio nor text uses.

    `from_pretrained` creates the model on meta, so the tower takes no memory before it is removed here.
    """

    _keys_to_ignore_on_load_unexpected: ClassVar = [r"embed_tokens_extend\.image_embed\."]

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        del self.model.embed_tokens_extend.image_embed
