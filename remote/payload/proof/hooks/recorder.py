"""The callbacks that the patches of torch make, in the order of one training step."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Protocol, Tuple

from .interruptions import Interruptions
from .loss_graph import Start
from .origins import Origins


class Recorder(Protocol):
    """Records optimizer steps. A method raises only to end the training."""

    @property
    def details(self) -> Optional[DetailRecorder]:
        """The recorder of details beyond the steps; None to install no patches for them."""
        ...

    @property
    def interruptions(self) -> Optional[Interruptions]:
        """The record of evaluations and checkpoints; None to install no patches for them."""
        ...

    def restart(self) -> None:
        """Discard what the parent recorded, because this process is a fork that begins to train."""
        ...

    def backward(self, loss: Any) -> None:
        """A backward pass starts at a scalar; `loss` is its value before scaling."""
        ...

    def after_backward(self, start: Start) -> None:
        """The outermost backward pass is over."""
        ...

    def after_clipping(self, parameters: List[Any], norm: Any, limit: Any) -> None:
        """Gradients of these parameters had this norm (None if unknown) and were clipped to this limit."""
        ...

    def attempt(self, optimizer: Any, scaler: Any) -> None:
        """An optimizer step is attempted; gradients may still be scaled."""
        ...

    def before_step(self, optimizer: Any, *, closure: bool) -> None:
        """The optimizer is about to change its parameters; gradients are unscaled. `closure` recomputes them."""
        ...

    def after_step(self, optimizer: Any, scaler: Any, scale: Optional[float], skipped: bool) -> None:
        """The attempt is over; `scale` is the loss scale before it."""
        ...


class DetailRecorder(Protocol):
    """Records what the proof needs in addition to the steps. `release` removes the hooks on module calls."""

    release: Callable[[], None]
    origins: Origins

    def built(self, optimizer: Any) -> None:
        """An optimizer was built over its parameters as they are now."""
        ...

    def forward(self, root: Any) -> None:
        """A module is called by no other module, with gradients enabled and outside of backward."""
        ...

    def attention(self, query: Any, key: Any, value: Any, settings: Dict[str, Any]) -> None:
        """scaled_dot_product_attention is called."""
        ...

    def cross_entropy(self, scores: Any, target: Any, ignored: int) -> None:
        """F.cross_entropy is called."""
        ...

    def value_loss(self, name: str, target: Any, lengths: Any) -> None:
        """A loss without ignore_index is called; `lengths` of its targets, if it takes any."""
        ...

    def checkpointing(self, reentrant: bool, args: Tuple[Any, ...]) -> None:
        """torch.utils.checkpoint is called."""
        ...

    def autocast_made(self, requested: bool, enabled: bool, replaced: bool) -> None:
        """An autocast context was made; enabling it needs a device that supports it.

        `replaced`: it is bfloat16 on this CPU and would be float16 on a card.
        """
        ...

    def scaler_made(self, requested: bool, enabled: bool) -> None:
        """A loss scaler was made."""
        ...

    def scaling(self, scaler: Any) -> None:
        """A loss is about to be multiplied by the loss scale."""
        ...

    def cache_cleared(self) -> None:
        """Autocast has forgotten the weights that it cast."""
        ...

    def before_backward(self) -> None:
        """The outermost backward pass is about to add to gradients."""
        ...

    def before_unscaling(self, optimizer: Any, scale: float) -> None:
        """Gradients are about to be divided by the loss scale."""
        ...

    def before_clipping(self, parameters: List[Any]) -> None:
        """Gradients of these parameters are about to be clipped."""
        ...

    def scale_updated(self, scaler: Any) -> None:
        """The loss scale was updated."""
        ...

    def scheduled(self, scheduler: Any) -> None:
        """A learning rate scheduler took a step."""
        ...
