"""A merge of an adapter into its base model: the spec of its job."""

from __future__ import annotations

from remote.protocol.dataclass import dataclass
from remote.protocol.training import TrainingSpec


@dataclass(frozen=True)
class MergeSpec:
    """Everything that the merge needs. `training` contains the model and the precision of the training.

    `adapter` and `output` are absolute folders on the host. `adapter_sha256` is the expected digest of the adapter's
    weights. If the adapter was trained on a base model in NF4, the merge fails. With `dequantize`, the adapter is
    merged into the dequantized weights instead.
    """

    training: TrainingSpec
    adapter: str
    adapter_sha256: str
    output: str
    dequantize: bool = False
