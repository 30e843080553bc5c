"""Peak memory of a training step, counted on fake tensors before any weight is loaded."""

from __future__ import annotations

import contextlib
import copy
import weakref
from typing import Any, Dict, Iterator

import torch
from peft import get_peft_model
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from remote.payload.training.base_model import (
    BaseModel,
    cast_trainable,
    checkpoint_layers,
    freeze_base,
    trainable_parameters,
)
from remote.payload.training.fused_lora import fuse_lora
from remote.payload.training.lora import adapter_config, check_modules, embed_audio, is_trained, trains_encoder
from remote.payload.training.quantization import use_fake_nf4
from remote.protocol.dataclass import dataclass
from remote.protocol.precision import PrecisionPlan
from remote.protocol.training import FRESH, LoraSpec


@dataclass(frozen=True)
class Shape:
    """One micro-batch: `samples` rows of `length` tokens, with `labels` in all rows together.

    `is_shared`: one row contains several samples, with a mask for each pair of tokens. `accumulates`: an optimizer step
    has several micro-batches, so that gradients exist during the forward pass.
    """

    samples: int
    length: int
    labels: int
    accumulates: bool = True
    is_shared: bool = False


class LiveBytes(TorchDispatchMode):  # type: ignore[misc]
    """Counts the bytes of live tensors, and their peak, while it is active. Works on real and on fake tensors.

    Storages are counted, so views add nothing. Memory inside a kernel is not counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.peak = 0
        self._seen: Any = weakref.WeakKeyDictionary()

    def add(self, tensor: torch.Tensor) -> None:
        """Count a tensor that already exists."""
        storage = tensor.untyped_storage()
        if storage in self._seen:
            return
        size = storage.nbytes()
        self._seen[storage] = size
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._drop, size)

    def _drop(self, size: int) -> None:
        self.now -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self.add(leaf)
        return out


class Estimator:
    """Estimates the peak memory of training steps of one model with its adapter.

    The weights are counted, but not loaded.
    """

    def __init__(
        self,
        base: BaseModel,
        plan: PrecisionPlan,
        adapter: str,
        lora: LoraSpec,
        *,
        on_card: bool,
        processes: int = 1,
        shard_base: bool = False,
    ) -> None:
        self.plan = plan
        self.on_card = on_card
        self.model = _model_on_meta(base, plan, adapter, lora)
        self.fake = FakeTensorMode()
        with self.fake:
            _allocate(self.model)
        self.layers = checkpoint_layers(self.model, 0)
        self.why_not_estimated = _why_not_estimated(self.model, base)
        roots = (self.model.get_base_model().get_submodule(path) for path in base.family.audio)
        self.trains_audio = any(is_trained(root) for root in roots)
        trained = (parameter for _, parameter in trainable_parameters(self.model))
        # DistributedDataParallel keeps a second copy of all gradients.
        self.ddp_bucket_bytes = sum(parameter.nbytes for parameter in trained) if processes > 1 else 0
        self.bytes_saved = bytes_saved_by_sharding(self.model, processes) if shard_base else 0

    def peak_bytes(self, shape: Shape, checkpointed: int) -> int:
        """Return the peak memory in bytes of an optimizer step after the first one.

        `checkpointed` is the number of decoder layers with activation checkpointing. Raises RuntimeError for a model
        that cannot be estimated.
        """
        if self.why_not_estimated:
            raise RuntimeError(self.why_not_estimated)
        checkpoint_layers(self.model, checkpointed)
        self.model.train()
        trained = [parameter for _, parameter in trainable_parameters(self.model)]
        live = LiveBytes()
        for tensor in (*self.model.parameters(), *self.model.buffers()):
            live.add(tensor)
        with self.fake, live:
            # On a card, the optimizer updates all tensors at once, which needs temporary copies of them.
            optimizer = torch.optim.AdamW(trained, foreach=self.on_card)
            for parameter in trained:
                parameter.grad = torch.zeros_like(parameter)
            optimizer.step()
            optimizer.zero_grad(set_to_none=not shape.accumulates)
            self._run(shape)
            optimizer.step()
            optimizer.zero_grad()
        return live.peak + self.ddp_bucket_bytes - self.bytes_saved

    def _run(self, shape: Shape) -> None:
        hidden = self.model.get_input_embeddings().weight
        rows, length = shape.samples, shape.length
        inputs: Dict[str, torch.Tensor] = {
            "inputs_embeds": hidden.new_empty(rows, length, hidden.shape[1]).requires_grad_(self.trains_audio),
            "labels": torch.zeros(rows, length, dtype=torch.long),
            "label_positions": torch.zeros(shape.labels, dtype=torch.long),
        }
        # A card without bfloat16 has no maskless kernel for grouped-query attention (see `training_mask`).
        if shape.is_shared or (self.on_card and self.plan.autocast_dtype == "float16"):
            inputs["attention_mask"] = torch.ones(1, 1, length, length, dtype=torch.bool)
        dtype = getattr(torch, self.plan.autocast_dtype or "float32")
        autocast = torch.autocast("cpu", dtype=dtype, enabled=self.plan.autocast_dtype is not None)
        with autocast, contextlib.nullcontext() if "attention_mask" in inputs else _without_masks(self.model):
            loss = self.model(**inputs).loss
        loss.backward()


@contextlib.contextmanager
def _without_masks(model: Any) -> Iterator[None]:
    """Pass no attention mask to the decoder layers within the block.

    transformers 5.23 reads the values of the positions to find out that causal attention is enough. Fake tensors have
    no values, so transformers would create a mask. With a mask, attention copies the keys and values of grouped
    queries.
    """

    def drop(layer: Any, inputs: Any, named: Dict[str, Any]) -> Any:
        return inputs, {**named, "attention_mask": None}

    layers = model.get_base_model().get_decoder().layers
    hooks = [layer.register_forward_pre_hook(drop, with_kwargs=True) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def bytes_saved_by_sharding(model: Any, processes: int) -> int:
    """Return how many bytes a process saves by sharding the base model.

    These are the weights that other processes keep, minus the weights that this process gathers. FSDP2 gathers the next
    layer while the current layer is in use, so two layers are gathered at a time.
    """
    layers = model.get_base_model().get_decoder().layers
    frozen = [sum(one.nbytes for one in layer.parameters() if not one.requires_grad) for layer in layers]
    return max(0, int(sum(frozen) * (processes - 1) // processes - 2 * max(frozen)))


def _why_not_estimated(model: Any, base: BaseModel) -> str:
    """Return why the memory of this model cannot be estimated, or "" if it can."""
    if trains_encoder(model.get_base_model(), base.family):
        return "the encoder is trained, and its activations depend on the clips"
    if base.quantization is not None and any(config.use_dora for config in model.peft_config.values()):
        return "DoRA needs the weights that NF4 packs"
    return ""


def _model_on_meta(base: BaseModel, plan: PrecisionPlan, adapter: str, lora: LoraSpec) -> Any:
    with torch.device("meta"):
        model = base.family.model_class._from_config(
            copy.deepcopy(base.config), dtype=getattr(torch, plan.frozen_dtype), attn_implementation=plan.attention
        )
        freeze_base(model)
        if adapter == FRESH:
            check_modules(model, base.family, lora)
        settings = adapter_config(base, adapter, lora)
        if base.quantization is not None and not settings.use_dora:
            use_fake_nf4(model, base.family, plan)
        adapted = fuse_lora(get_peft_model(model, settings))
        embed_audio(model, base.family)
        cast_trainable(adapted, plan)
    return adapted


def _allocate(model: Any) -> None:
    """Replace every tensor of a model on meta with an empty tensor on the CPU. Tied weights stay tied."""
    made: Dict[int, torch.Tensor] = {}

    def new(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in made:
            empty = torch.empty(tensor.shape, dtype=tensor.dtype)
            wanted = tensor.requires_grad
            made[id(tensor)] = (
                torch.nn.Parameter(empty, requires_grad=wanted) if isinstance(tensor, torch.nn.Parameter) else empty
            )
        return made[id(tensor)]

    kept = [*model.parameters(), *model.buffers()]  # These references keep the tensors alive, so that no id is reused.
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            tensors.update({name: new(tensor) for name, tensor in tensors.items() if tensor is not None})
    del kept
