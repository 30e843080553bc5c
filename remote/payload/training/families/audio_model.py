"""The description of a model family for the built-in trainer."""

from __future__ import annotations

import functools
import re
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import transformers

from remote.payload.training.features import Clip
from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class Part:
    """A part of the model: a pattern of module paths, and the linear layers in it that LoRA adapts by default."""

    path: str
    linear: Tuple[str, ...]


def _itself(config: Any) -> Any:
    return config


def _unlimited(extractor: Any) -> Optional[float]:
    return None


def _unchanged(model: Any) -> None:
    return None


@dataclass(frozen=True)
class AudioModel:
    """A model family: its chat templates, its modules and the functions for its audio features.

    `chat` is the template with {audio} and {prompt}; the answer follows the template and ends with `end`.
    `chat_audio_last` is the template with the prompt before the audio. `decoder`, `projector` and `encoder`: where LoRA
    can be applied. The pattern of the decoder matches each decoder layer. `audio`: modules that turn features into
    embeddings. They stay in eval mode, and run without a graph unless a parameter in them is trained. `unused`: modules
    that neither audio nor text needs. They are not created, and their weights are not loaded. `markup`: tokens of
    `chat` and `end` that the tokenizer would treat as plain text. `extract` computes the features of one clip, `pad`
    makes one batch of clips (keyword arguments of `forward`). `longest_s` returns the maximum duration of a clip in
    seconds, or None if there is no limit. `own_config` returns the part of the checkpoint's config that configures the
    class. `adjust` changes a model after its creation. `make_tiny` writes a small random checkpoint with a tokenizer
    that is trained on the given texts.
    """

    family: str
    class_name: str
    decoder: Part
    projector: Part
    encoder: Part
    audio: Tuple[str, ...]
    placeholder: str
    chat: str
    chat_audio_last: str
    end: str
    read_extractor: Callable[..., Any]
    extract: Callable[[Any, Any], Clip]
    pad: Callable[[Any, List[Clip]], Dict[str, torch.Tensor]]
    make_tiny: Callable[[str, List[str]], None]
    unused: Tuple[str, ...] = ()
    markup: Tuple[str, ...] = ()
    longest_s: Callable[[Any], Optional[float]] = _unlimited
    audio_token_id: Callable[[Any], int] = lambda config: int(config.audio_token_id)
    own_config: Callable[[Any], Any] = _itself
    adjust: Callable[[Any], None] = _unchanged

    @property
    def model_class(self) -> Any:
        """The model class of transformers, without the unused modules."""
        return without_modules(getattr(transformers, self.class_name), self.unused)


@functools.cache
def without_modules(model_class: Any, paths: Tuple[str, ...]) -> Any:
    """Return a subclass without the submodules at `paths`. Its `from_pretrained` ignores their weights.

    `from_pretrained` creates the model on meta, so the removed modules take no memory. The subclass keeps the name and
    module of the original class: transformers uses both to find out how to rename a checkpoint's weights
    (conversion_mapping.py).
    """
    if not paths:
        return model_class

    def create(self: Any, config: Any, *inputs: Any, **named: Any) -> None:
        model_class.__init__(self, config, *inputs, **named)
        for path in paths:
            parent, _, name = path.rpartition(".")
            delattr(self.get_submodule(parent), name)

    ignored = [*(model_class._keys_to_ignore_on_load_unexpected or ()), *(rf"{re.escape(path)}\." for path in paths)]
    more = {"__init__": create, "__module__": model_class.__module__, "_keys_to_ignore_on_load_unexpected": ignored}
    return type(model_class.__name__, (model_class,), more)


def padded(clip: Clip, frames: int) -> torch.Tensor:
    """Return the clip's features, padded with its fill value or cut to `frames` frames."""
    values = clip.values[:frames]
    return torch.nn.functional.pad(values, (0, 0, 0, frames - len(values)), value=clip.fill)
