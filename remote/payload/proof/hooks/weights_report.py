"""The part of the hooks' report about weights: tied weights, changes between steps, averages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple


@dataclass(frozen=True)
class UntiedHead:
    """An embedding and a head that are two tensors although the config ties them.

    `differ`: their values differ after the last step.
    `tied_when_loaded`: this version of transformers ties them again when it loads the saved files.
    """

    embedding: str
    head: str
    embedding_moved: bool
    head_moved: bool
    differ: bool
    tied_when_loaded: bool


@dataclass(frozen=True)
class ChangedBetween:
    """Trained tensors that changed between optimizer steps.

    `steps`: the number of steps after which tensors had changed.

    `rounded`: tensors that were rounded to float16.
    """

    steps: int = 0
    changed: Tuple[str, ...] = ()
    rounded: Tuple[str, ...] = ()


@dataclass(frozen=True)
class HalfAverage:
    """Half-precision copies of trained tensors that are updated in place. `stuck` are the copies that do not change."""

    judged: int = 0
    stuck: Tuple[str, ...] = ()
    dtypes: Tuple[str, ...] = ()
