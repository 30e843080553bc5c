"""The callbacks of the patches of torch, in the order of one training step."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Protocol, Tuple

from .interruptions import Interruptions
from .loss_graph import Start
from .origins import Origins


def number_in_environment(name: str, otherwise: int) -> int:
    """Return the number in a variable of a launcher, or `otherwise`: a script may export an empty RANK."""
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else otherwise


class Recorder(Protocol):
    """Records optimizer steps. A method raises only to end the training."""

    @property
    def details(self) -> Optional[DetailRecorder]:
        """The recorder of details beyond the steps, or None to install no patches for them."""
        ...

    @property
    def interruptions(self) -> Optional[Interruptions]:
        """The record of evaluations and checkpoints, or None to install no patches for them."""
        ...

    def restart(self) -> None:
        """Discard the parent's records, because this process is a fork that begins to train."""
        ...

    def backward(self, loss: Any) -> None:
        """Called when a backward pass starts at a scalar. `loss` is the value of the scalar before scaling."""
        ...

    def after_backward(self, start: Start) -> None:
        """Called when the outermost backward pass is over."""
        ...

    def after_clipping(self, parameters: List[Any], norm: Any, limit: Any) -> None:
        """Called when gradients of these parameters were clipped to `limit`.

        `norm` is their norm, or None if unknown.
        """
        ...

    def attempt(self, optimizer: Any, scaler: Any) -> None:
        """Called when an optimizer step is attempted. Gradients may still be scaled."""
        ...

    def before_step(self, optimizer: Any, *, closure: bool) -> None:
        """Called before an optimizer changes its parameters. Gradients are unscaled; `closure` recomputes them."""
        ...

    def after_step(self, optimizer: Any, scaler: Any, scale: Optional[float], skipped: bool) -> None:
        """Called when the attempt is over. `scale` is the loss scale before the step."""
        ...


class DetailRecorder(Protocol):
    """Records details for the proof in addition to the steps. `release` removes the hooks on module calls."""

    release: Callable[[], None]
    origins: Origins

    def built(self, optimizer: Any) -> None:
        """Called when an optimizer was built over its parameters."""
        ...

    def forward(self, root: Any) -> None:
        """Called when a root module is called, with gradients enabled and outside of backward."""
        ...

    def attention(self, query: Any, key: Any, value: Any, settings: Dict[str, Any]) -> None:
        """Called when scaled_dot_product_attention is called."""
        ...

    def cross_entropy(self, scores: Any, target: Any, ignored: int) -> None:
        """Called when F.cross_entropy is called."""
        ...

    def value_loss(self, name: str, target: Any, lengths: Any) -> None:
        """Called when a loss without ignore_index is computed.

        `lengths` are the lengths of its targets, if the loss has such an argument.
        """
        ...

    def checkpointing(self, reentrant: bool, args: Tuple[Any, ...]) -> None:
        """Called when torch.utils.checkpoint is called."""
        ...

    def autocast_made(self, requested: bool, enabled: bool, replaced: bool) -> None:
        """Called when an autocast context was created, whether or not the device supports it.

        `replaced` means that the context is bfloat16 on this CPU and would be float16 on a card.
        """
        ...

    def scaler_made(self, requested: bool, enabled: bool) -> None:
        """Called when a loss scaler was created."""
        ...

    def scaling(self, scaler: Any) -> None:
        """Called before a loss is multiplied by the loss scale."""
        ...

    def cache_cleared(self) -> None:
        """Called when autocast has cleared its cache of cast weights."""
        ...

    def before_backward(self) -> None:
        """Called before the outermost backward pass adds to gradients."""
        ...

    def before_unscaling(self, optimizer: Any, scale: float) -> None:
        """Called before gradients are divided by the loss scale."""
        ...

    def before_clipping(self, parameters: List[Any]) -> None:
        """Called before gradients of these parameters are clipped."""
        ...

    def scale_updated(self, scaler: Any) -> None:
        """Called when the loss scale was updated."""
        ...

    def scheduled(self, scheduler: Any) -> None:
        """Called when a learning rate scheduler took a step."""
        ...
