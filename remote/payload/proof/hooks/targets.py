"""Measure which token each row of logits is trained to predict, and the gradient of logits without a label."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from .batch_report import IgnoredGradient, TargetOffsets
from .row_ends import IGNORED, labels_ahead

CALLS = 4
SAMPLE = 128
COLUMNS = 8
OFFSETS = (-1, 0, 1, 2)
LEAST_ROWS = 8
ROWS = 8
EDGE = 4
PARALLEL = 0.99
TOKENS = ("input_ids", "decoder_input_ids", "0")


@dataclass(frozen=True)
class EntropySample:
    """A sample of rows of one cross entropy: their positions in the logits of model call `call`, and their targets."""

    call: int
    length: int
    rows: Any
    positions: Any
    targets: Any


@dataclass(frozen=True)
class OutputGradient:
    """The gradient of the last output of model call `call`: its norm by position, and its values at the `edges`."""

    call: int
    norms: Any
    edges: List[int]
    gradient: Any
    values: Any


class TargetMeasure:
    """Compares logits, targets and input tokens of the first model calls, at the start and at the end of backward."""

    def __init__(self) -> None:
        self._call = 0
        self._is_open = False
        self._outputs: Dict[int, Any] = {}
        self._handle: Optional[Any] = None
        self._inputs: Dict[int, Dict[str, Any]] = {}
        self._compared: List[EntropySample] = []
        self._followed: Dict[int, OutputGradient] = {}
        self._offsets: List[TargetOffsets] = []
        self._ignored: List[IgnoredGradient] = []

    def summary(self) -> Tuple[Tuple[TargetOffsets, ...], Tuple[IgnoredGradient, ...]]:
        return tuple(self._offsets), tuple(self._ignored)

    def begin(self) -> None:
        """Record that a model call begins."""
        self._call += 1
        self._is_open, self._handle = True, None

    def note_output(self, output: Any, *, leaf: bool) -> None:
        """Record an output of a module inside the call. The last output is usually the logits."""
        if not self._is_open or output.dim() != 3 or not output.requires_grad:
            return
        # A few columns suffice to identify rows. The whole output would take memory that the training needs.
        self._outputs[output.shape[-1]] = output.detach()[..., :COLUMNS].to(sys.modules["torch"].float32, copy=True)
        if leaf:
            self._follow(output)

    def _follow(self, output: Any) -> None:
        """Measure the gradient of this output instead of the previous output."""
        if self._handle is not None:
            self._handle.remove()
        torch, call, length = sys.modules["torch"], self._call, output.shape[1]
        edges = sorted({at for at in (*range(EDGE), *range(length - EDGE, length)) if 0 <= at < length})
        values = output.detach()[:ROWS, edges].clone()

        def measure(gradient: Any) -> None:
            norms = torch.linalg.vector_norm(gradient, dim=-1, dtype=torch.float32)
            self._followed[call] = OutputGradient(call, norms, edges, gradient[:ROWS, edges].clone(), values)

        self._handle = output.register_hook(measure)

    def note_entropy(self, scores: Any, target: Any, ignored: int) -> None:
        """Find the positions of rows of `scores` by comparing their values with the model's logits.

        Slices of the logits are found too.
        """
        if len(self._offsets) + len(self._compared) >= CALLS or scores.dim() not in (2, 3):
            return
        flat = scores.detach() if scores.dim() == 2 else scores.detach().transpose(1, 2).reshape(-1, scores.shape[1])
        made = self._outputs.get(flat.shape[-1])
        if made is None or flat.shape[0] != target.numel() or made.shape[0] * made.shape[1] < flat.shape[0]:
            return
        torch = sys.modules["torch"]
        sampled = (target.reshape(-1) != ignored).nonzero().flatten()
        sampled = sampled[:: max(1, sampled.numel() // SAMPLE)][:SAMPLE]
        all_rows = made.reshape(-1, made.shape[-1])
        equal = (flat[sampled][:, :COLUMNS].float()[:, None] == all_rows[None]).all(-1)
        matches = equal.sum(1) == 1
        positions, targets = equal.int().argmax(1)[matches], target.reshape(-1)[sampled][matches]
        length = made.shape[1]
        rows = torch.div(positions, length, rounding_mode="floor")
        self._compared.append(EntropySample(self._call, length, rows, positions % length, targets))

    def end(self, inputs: Dict[str, Any]) -> None:
        """Record the arguments of the completed call."""
        self._is_open = False
        self._inputs[self._call] = inputs

    def before_backward(self) -> None:
        """Compare targets with the tokens of their model calls."""
        for compared in self._compared:
            offsets = _offsets(compared, self._inputs.get(compared.call, {}))
            if offsets is not None:
                self._offsets.append(offsets)
        self._compared, self._outputs = [], {}

    def after_backward(self) -> None:
        """Compare gradients with the labels of their model calls, then discard the calls."""
        for followed in self._followed.values():
            gradients = _ignored(followed, self._inputs.get(followed.call, {}))
            if gradients is not None and len(self._ignored) < CALLS:
                self._ignored.append(gradients)
        self._followed, self._inputs = {}, {}


def _tokens(inputs: Dict[str, Any], length: int) -> Optional[Any]:
    """Return the input's token ids, one for each position of the logits, or None if the model got no such ids."""
    torch = sys.modules["torch"]
    for name in TOKENS:
        value = inputs.get(name)
        if isinstance(value, torch.Tensor) and value.dim() == 2 and not value.is_floating_point():
            return value if value.shape[1] == length else None
    return None


def _offsets(compared: EntropySample, inputs: Dict[str, Any]) -> Optional[TargetOffsets]:
    tokens = _tokens(inputs, compared.length)
    if tokens is None or compared.targets.numel() < LEAST_ROWS or int(compared.rows.max()) >= tokens.shape[0]:
        return None
    share = {}
    for offset in OFFSETS:
        places = compared.positions + offset
        inside = (places >= 0) & (places < compared.length)
        same = tokens[compared.rows[inside], places[inside]] == compared.targets[inside]
        share[str(offset)] = float(same.float().mean()) if same.numel() >= LEAST_ROWS else 0.0
    labels = inputs.get("labels")
    ahead = labels_ahead(labels, tokens) if getattr(labels, "shape", None) == tokens.shape else None
    return TargetOffsets(int(compared.targets.numel()), share, ahead)


def _ignored(followed: OutputGradient, inputs: Dict[str, Any]) -> Optional[IgnoredGradient]:
    """Measure gradients of logits without a label at their position and at the next position.

    Return None if neither labels nor mask have the shape of the logits. The label may be at the next position if the
    model shifts the labels itself.
    """
    torch = sys.modules["torch"]
    labels: Any = inputs.get("labels")
    mask: Any = inputs.get("attention_mask")
    if getattr(labels, "shape", None) == followed.norms.shape and not labels.is_floating_point():
        unlabelled: Any = labels == IGNORED
    elif labels is None and getattr(mask, "shape", None) == followed.norms.shape:
        unlabelled = mask == 0
    else:
        return None
    following = torch.cat([unlabelled[:, 1:], torch.ones_like(unlabelled[:, :1])], dim=1)
    ignored = unlabelled & following
    reached = ignored & (followed.norms > 0)
    sampled = reached[:ROWS, followed.edges]
    uniform, one_id = _directions(followed.gradient[sampled].float(), followed.values[sampled].float())
    return IgnoredGradient(int(ignored.sum()), int(reached.sum()), int(sampled.sum()), uniform, one_id)


def _directions(gradient: Any, values: Any) -> Tuple[int, int]:
    """Return how many gradients pull softmax(values) towards the uniform distribution, and how many towards one id."""
    torch = sys.modules["torch"]
    if not gradient.numel():
        return 0, 0
    similar = torch.nn.functional.cosine_similarity
    made = values.softmax(-1)
    uniform = int((similar(gradient, made - 1 / made.shape[-1], dim=-1) > PARALLEL).sum())
    ids, counts = gradient.argmin(-1).unique(return_counts=True)
    single_id = torch.nn.functional.one_hot(ids[counts.argmax()], made.shape[-1])
    return uniform, int((similar(gradient, made - single_id, dim=-1) > PARALLEL).sum())
