"""What a recorder is told by the seams, in the order in which one training step happens."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Protocol, Tuple


class Recorder(Protocol):
    """Every method returns at once and raises nothing but what is meant to end the training.

    `wants_modules`: module calls, attention, cross entropy are told too. `release` ends the telling of module calls.
    """

    wants_modules: bool
    release: Callable[[], None]

    def restart(self) -> None:
        """This process is a fork that begins to train: all that was recorded so far is its parent's."""
        ...

    def built(self, optimizer: Any) -> None:
        """An optimizer was made over its parameters as they are now."""
        ...

    def forward(self, root: Any) -> None:
        """A module is called that no other module called, with gradients on and outside of backward."""
        ...

    def inputs(self, root: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        """What such a module is called with; not told for its very first call."""
        ...

    def attention(self, query: Any, key: Any, value: Any, settings: Dict[str, Any]) -> None:
        """scaled_dot_product_attention is called."""
        ...

    def cross_entropy(self, scores: Any, target: Any, ignored: int) -> None:
        """F.cross_entropy is called."""
        ...

    def loss(self, name: str, target: Any, lengths: Any) -> None:
        """A loss whose target has no ignored value is called; `lengths` of its targets, where it has some."""
        ...

    def checkpointed(self, reentrant: bool, args: Tuple[Any, ...]) -> None:
        """torch.utils.checkpoint is called."""
        ...

    def scaled(self, scaler: Any, loss: Any) -> None:
        """A loss is about to be multiplied by the loss scale."""
        ...

    def asked(self, what: str, wanted: bool, on: bool) -> None:
        """`autocast` or `scaler` was made: whether it was to be on, and whether it is, which needs a card that can."""
        ...

    def accumulating(self) -> None:
        """A backward pass, whatever it starts at, is about to add to gradients."""
        ...

    def accumulated(self, kind: str) -> None:
        """It has; `kind`: whether it started at a loss that is `scaled`, `plain` or scaled `by hand`; else empty."""
        ...

    def backward(self, root: Any, loss: Any) -> None:
        """A backward pass starts at `root`; `loss` is the same before scaling."""
        ...

    def unscaling(self, scaler: Any, optimizer: Any) -> None:
        """Gradients are about to be divided by the loss scale."""
        ...

    def clipping(self, parameters: List[Any]) -> None:
        """Gradients of these parameters are about to be clipped."""
        ...

    def clipped(self, parameters: List[Any], norm: Any, limit: Any) -> None:
        """Gradients of these parameters had this norm (None: unknown) and were clipped to this limit."""
        ...

    def attempt(self, optimizer: Any, scaler: Any) -> None:
        """An optimizer step is tried; gradients may still be scaled."""
        ...

    def applying(self, optimizer: Any) -> None:
        """The optimizer is about to change its parameters; gradients are unscaled now."""
        ...

    def applied(self, optimizer: Any, scaler: Any, scale: Optional[float], skipped: bool) -> None:
        """The attempt is over."""
        ...

    def rescaled(self, scaler: Any) -> None:
        """The loss scale was updated."""
        ...

    def scheduled(self, scheduler: Any) -> None:
        """A learning rate scheduler took a step."""
        ...
