"""Find embeddings and heads that are separate tensors although the model's config ties them."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional, Tuple

from .foreign import read, result_of
from .tensors import fingerprint, moved
from .weights_report import UntiedHead

FIRST_THAT_KEEPS_BOTH = 5
"""The first major version of transformers that keeps both tensors when it loads them. Older versions tie them again."""


def find_untied(roots: List[Any], names: Dict[int, str], has_moved: Dict[str, bool]) -> Optional[UntiedHead]:
    """Return the first head that is a separate tensor although its config ties it to an embedding, or None.

    Copies that PEFT trains do not count, because they are saved with the adapter.
    """
    for root in roots:
        pair = _pair(read(root, "module", otherwise=root))
        if pair is None or pair[0] is pair[1] or pair[0].data_ptr() == pair[1].data_ptr():
            continue
        embedding, head = (names.get(id(one), "") for one in pair)
        if not embedding or not head or "modules_to_save" in embedding + head:
            continue
        both = [fingerprint([("", one.float())]) for one in pair]
        return UntiedHead(
            embedding,
            head,
            embedding_moved=has_moved.get(embedding, False),
            head_moved=has_moved.get(head, False),
            differ=moved(*both)[""],
            tied_when_loaded=_major_of_transformers() < FIRST_THAT_KEEPS_BOTH,
        )
    return None


def _pair(root: Any) -> Optional[Tuple[Any, Any]]:
    """Return the weights of embedding and head if the model's config ties them, otherwise None."""
    if not read(root, "config", "tie_word_embeddings"):
        return None
    # A model without embeddings has these methods too, and they raise an exception.
    parts = [result_of(read(root, name)) for name in ("get_input_embeddings", "get_output_embeddings")]
    weights: List[Any] = [read(part, "weight") for part in parts]
    torch = sys.modules["torch"]
    are_tensors = all(isinstance(one, torch.Tensor) and one.is_floating_point() and one.numel() for one in weights)
    return (weights[0], weights[1]) if are_tensors and weights[0].shape == weights[1].shape else None


def _major_of_transformers() -> int:
    version = str(getattr(sys.modules.get("transformers"), "__version__", "0"))
    return int(version.split(".", maxsplit=1)[0])
