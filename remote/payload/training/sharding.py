"""Shard the frozen base model over the processes. Each process keeps a part of every decoder layer."""

from __future__ import annotations

from typing import Any

import torch

from remote.payload.training.failure import TrainingFailed
from remote.protocol.exits import ExitCode

OLDEST_TORCH = (2, 7)


def shard_base(model: Any, device: Any) -> int:
    """Shard the frozen weights of the decoder layers over all processes (FSDP2); return their bytes on this process.

    A layer's weights are gathered for its forward and its backward pass. The adapter stays complete on every process:
    DistributedDataParallel reduces its gradients in their own dtype, float32, and its checkpoints do not depend on the
    number of processes. Raises TrainingFailed if torch is too old.
    """
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < OLDEST_TORCH:
        message = f"train.shard_base needs torch {'.'.join(map(str, OLDEST_TORCH))} or newer, found {torch.__version__}"
        raise TrainingFailed("torch", message, exit_code=ExitCode.ENVIRONMENT)
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415 - missing in older versions of torch
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415 - missing in older versions of torch

    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    trained = {parameter for parameter in model.parameters() if parameter.requires_grad}
    layers = list(model.get_base_model().get_decoder().layers)
    for layer in layers:
        fully_shard(layer, mesh=mesh, ignored_params=trained)
    sharded = {id(parameter) for layer in layers for parameter in layer.parameters() if parameter not in trained}
    # DistributedDataParallel must not broadcast these parameters from rank 0.
    ignored = [name for name, parameter in model.named_parameters() if id(parameter) in sharded]
    torch.nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ignored)
    return sum(parameter.to_local().nbytes for parameter in model.parameters() if id(parameter) in sharded)
