"""Compare the loss that a model returns for num_items_in_batch with the loss at which backward starts."""

from __future__ import annotations

import inspect
import math
import sys
from types import FrameType
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .batch_report import LossUse
from .foreign import parameters_in, read
from .modules import first_float
from .places import Project
from .step import Step
from .tensors import local

ITEMS = "num_items_in_batch"
"""The argument with the number of labels in all micro-batches of an optimizer step. The loss is divided by it."""
CALLS = 16
SAME = 0.01
WRAPPERS = ("DataParallel", "DistributedDataParallel", "OptimizedModule")


class LossMeasure:
    """Records the losses that models return in steps with num_items_in_batch, and those at which backward starts."""

    def __init__(self) -> None:
        self._project = Project()
        self._place = ""
        self._trainer = self._passed = False
        self._returned: Optional[Any] = None
        self._pairs: List[Tuple[Any, Any]] = []

    def note_output(self, root: Any, inputs: Dict[str, Any], output: Any) -> None:
        """Keep the loss of a completed model call until backward starts."""
        if not parameters_in(root):
            return
        step = _trainer_step()
        items = inputs.get(ITEMS) if step is None else step.f_locals.get(ITEMS)
        loss = loss_of(output) if items is not None else None
        # Trainer multiplies the loss by the number of processes in place.
        self._returned = None if loss is None else local(loss).clone()
        if loss is None or self._place:
            return
        self._trainer = step is not None
        self._passed = inputs.get(ITEMS) is not None or any(value is items for value in inputs.values())
        method = unwrapped(root).forward
        if step is not None and not self._passed:
            method = type(step.f_locals["self"]).compute_loss
        self._place = self._place_of(method)

    def before_backward(self, loss: Any) -> None:
        """Record the loss at which a backward pass starts, before the loss scaler multiplied it."""
        if self._returned is not None and len(self._pairs) < CALLS:
            self._pairs.append((local(loss), self._returned))
        self._returned = None

    def summary(self) -> Optional[LossUse]:
        """Return how the losses were used, or None if none of them can be compared."""
        pairs = [(float(used), float(returned)) for used, returned in self._pairs]
        # A batch without labels has a loss of NaN.
        shares = tuple(used / returned for used, returned in pairs if returned and math.isfinite(used / returned))
        return LossUse(shares, self._place, self._trainer, self._passed) if shares else None

    def _place_of(self, method: Any) -> str:
        function = inspect.unwrap(method)
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        return "" if code is None else str(self._project.place_of(code))


def loss_of(output: Any) -> Optional[Any]:
    """Return the loss in a model's output: its `loss`, otherwise its first tensor.

    Return None unless it is a single number.
    """
    loss = output.get("loss") if isinstance(output, dict) else read(output, "loss")
    loss = first_float(output if loss is None else loss)
    return loss if loss is not None and loss.numel() == 1 else None


def unwrapped(root: Any) -> Any:
    """Return the model inside of DistributedDataParallel, torch.compile and PEFT: the object that Trainer inspects."""
    while type(root).__name__ in WRAPPERS:
        root = root._modules.get("module") or root._modules["_orig_mod"]
    return root.get_base_model() if hasattr(root, "get_base_model") else root


def excess(use: Optional[LossUse], steps: Sequence[Step], world: int) -> float:
    """Return how many times too large loss and gradients are if the model ignores num_items_in_batch.

    Return 1.0 if the training divides the model's loss, or computes another loss. Trainer multiplies the loss by the
    number of processes, since num_items_in_batch is the sum over them, and DistributedDataParallel averages gradients.
    """
    if use is None:
        return 1.0
    for multiple in (1, world):
        if all(abs(share - multiple) < SAME * multiple for share in use.shares):
            return float(multiple * max((len(step.losses) for step in steps), default=1))
    return 1.0


def _trainer_step() -> Optional[FrameType]:
    """Return the frame of transformers' Trainer.training_step on the stack, or None."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "training_step" and frame.f_globals.get("__name__") == "transformers.trainer":
            return frame
        frame = frame.f_back
    return None
