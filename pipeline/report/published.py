"""Published results on speechocean762, and the differences between an evaluation and the published experiment.

arXiv 2509.02915 (Ahn and Nam, 2025), table 3: Phi-4-multimodal-instruct, 2,500 training and 2,500 test recordings.
"""

from __future__ import annotations

from remote.protocol.dataclass import dataclass
from remote.protocol.evaluation import EvaluationResult

SOURCE = "arXiv 2509.02915, table 3"
MODEL = "microsoft/Phi-4-multimodal-instruct"
DATA = "mispeech/speechocean762"
RECORDINGS = 2500
NAMES = (
    "apa/accuracy/pearson",
    "apa/fluency/pearson",
    "apa/prosodic/pearson",
    "apa/total/pearson",
    "mdd/wer",
    "mdd/per",
    "mdd/f1",
    "mdd/precision",
    "mdd/recall",
)


@dataclass(frozen=True)
class PublishedRow:
    """One row of the paper's table. `values` are in the order of NAMES."""

    name: str
    values: tuple[float, ...]

    @property
    def metrics(self) -> dict[str, float]:
        """Return the published values by the names of halfstep's metrics."""
        return dict(zip(NAMES, self.values, strict=True))


PUBLISHED = (
    PublishedRow("no tuning", (-0.041, -0.017, -0.0493, -0.104, 0.97, 0.792, 0.143, 0.154, 0.134)),
    PublishedRow("LoRA, 1 epoch", (0.547, 0.585, 0.567, 0.544, 0.150, 0.137, 0.686, 0.689, 0.682)),
    PublishedRow("LoRA, 2 epochs", (0.637, 0.726, 0.709, 0.662, 0.139, 0.118, 0.722, 0.725, 0.719)),
    PublishedRow("LoRA, 3 epochs", (0.656, 0.727, 0.711, 0.675, 0.140, 0.114, 0.724, 0.728, 0.721)),
    PublishedRow("LoRA, 4 epochs", (0.645, 0.733, 0.714, 0.668, 0.148, 0.121, 0.721, 0.723, 0.720)),
    PublishedRow("Unfreeze, 1 epoch", (0.535, 0.559, 0.564, 0.550, 0.159, 0.199, 0.575, 0.579, 0.570)),
    PublishedRow("Unfreeze, 2 epochs", (0.624, 0.668, 0.653, 0.634, 0.145, 0.154, 0.651, 0.651, 0.651)),
    PublishedRow("Unfreeze, 3 epochs", (0.621, 0.669, 0.655, 0.637, 0.148, 0.150, 0.663, 0.665, 0.662)),
    PublishedRow("Unfreeze, 4 epochs", (0.743, 0.717, 0.704, 0.666, 0.142, 0.142, 0.667, 0.671, 0.663)),
)
UNTUNED, CLOSEST = PUBLISHED[0], PUBLISHED[3]
"""The rows that are shown next to the scores of the adapter and the base model."""


def is_comparable(result: EvaluationResult) -> bool:
    """Return True if the evaluation has a metric of the paper."""
    return any(name in NAMES for scores in result.scores for name in scores.metrics)


def differences(result: EvaluationResult) -> tuple[str, ...]:
    """Return the differences from the paper's experiment, including settings that the paper does not state.

    Returns () if the evaluation has no metric of the paper.
    """
    if not is_comparable(result):
        return ()
    found = ["prompts: worded differently, with the same tasks and control tokens"]
    if result.rank is not None:
        found.append(f"rank: {result.rank}; the paper does not state the rank")
    if result.model != MODEL:
        found.append(f"model: {result.model or 'unknown'}, not {MODEL}")
    if result.data != DATA:
        found.append(f"data: {result.data or 'unknown'}, not {DATA}")
    elif (result.split, result.recordings) != ("test", RECORDINGS):
        found.append(f"data: {result.recordings} recordings of split {result.split}, not the {RECORDINGS} of test")
    return tuple(found)
