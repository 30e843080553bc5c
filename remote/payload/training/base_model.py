"""The base model with its adapter, in the dtypes of the precision plan."""

from __future__ import annotations

import os
from typing import Any, List, Optional, Tuple

import torch
from peft import PeftModel, get_peft_model
from transformers import AutoConfig, AutoTokenizer
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import find_adapter_config_file

from remote.payload.training.attention_parts import use_attention_in_parts
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.families.audio_model import AudioModel
from remote.payload.training.families.registry import find_model
from remote.payload.training.fused_lora import fuse_lora
from remote.payload.training.label_loss import use_label_loss
from remote.payload.training.lora import adapter_source, embed_audio, lora_config
from remote.payload.training.quantization import quantization_config
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.precision import PrecisionPlan
from remote.protocol.training import FRESH, LoraSpec, ModelSpec


@dataclass(frozen=True)
class BaseModel:
    """The parts of the model that are loaded before its weights."""

    source: str
    revision: Any
    trust_remote_code: bool
    config: Any
    family: AudioModel
    tokenizer: Any
    extractor: Any
    quantization: Optional[str] = None

    @property
    def pad_id(self) -> int:
        """The token id that pads short rows. Attention and loss ignore padding."""
        token = self.tokenizer.pad_token_id
        return int(token if token is not None else self.tokenizer.eos_token_id)


def read_base(spec: ModelSpec, source: str) -> BaseModel:
    """Load config, tokenizer and feature extractor of the model at `source` (a hub id or folder).

    Raises TrainingFailed for an unknown family, a checkpoint that contains an adapter, or a tokenizer without the audio
    token.
    """
    hub_kwargs = {"revision": spec.revision} if spec.revision and not os.path.isdir(source) else {}
    config = AutoConfig.from_pretrained(source, trust_remote_code=spec.trust_remote_code, **hub_kwargs)
    family = find_model(config.model_type)
    config = family.own_config(config)
    if find_adapter_config_file(source, **hub_kwargs) is not None:
        message = (
            f"{source} contains an adapter of its own (adapter_config.json), which transformers adds to the base model"
        )
        hint = "use a checkpoint without an adapter"
        raise TrainingFailed("model-unknown", message, hint=hint, exit_code=ExitCode.USAGE)
    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=spec.trust_remote_code, **hub_kwargs)
    wanted = family.audio_token_id(config)
    got = tokenizer.convert_tokens_to_ids(family.placeholder)
    if got != wanted:
        raise TrainingFailed(
            "tokenizer-audio-token",
            f"{family.placeholder} is token {got} in the tokenizer and {wanted} in config.json",
            hint="pipeline fix --only tokenizer",
            exit_code=ExitCode.ENVIRONMENT,
        )
    extractor = family.read_extractor(source, **hub_kwargs)
    return BaseModel(
        source, spec.revision, spec.trust_remote_code, config, family, tokenizer, extractor, spec.quantization
    )


def load_model(base: BaseModel, plan: PrecisionPlan, adapter: str, lora: LoraSpec, device: str) -> Any:
    """Load the model on `device` with one trainable adapter. Frozen weights have the plan's dtype.

    Audio is embedded without an autograd graph unless modules that embed audio are trained. `cast_trainable` sets the
    adapter's dtype later, since a resume loads the adapter again.
    """
    hub_kwargs = {"revision": base.revision} if base.revision and not os.path.isdir(base.source) else {}
    model = base.family.model_class.from_pretrained(
        base.source,
        config=base.config,
        dtype=getattr(torch, plan.frozen_dtype),
        attn_implementation=plan.attention,
        device_map={"": device} if device != "cpu" else None,
        quantization_config=quantization_config(base.quantization, base.family, plan),
        **hub_kwargs,
    )
    freeze_base(model)
    if adapter == FRESH:
        adapted = get_peft_model(model, lora_config(base, lora))
    else:
        source, adapter_kwargs = adapter_source(base, adapter)
        adapted = PeftModel.from_pretrained(model, source, is_trainable=True, **adapter_kwargs)
    embed_audio(model, base.family)
    return fuse_lora(adapted)


def freeze_base(model: Any) -> None:
    """Freeze all weights.

    Patch the model to compute the loss only at label positions, and masked attention in parts.
    """
    model.config.use_cache = False
    use_label_loss(model)
    use_attention_in_parts(model)
    model.requires_grad_(False)


def checkpoint_layers(model: Any, count: int) -> int:
    """Enable gradient checkpointing in the first `count` layers of the language model; return its number of layers.

    The last layers keep their activations, because the backward pass frees these before it recomputes the first layers.
    """
    decoder = model.get_base_model().get_decoder()
    if count:
        decoder.gradient_checkpointing_enable({"use_reentrant": False})
    layers = decoder.layers
    number_of_layers = {id(layer) for layer in layers}
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer) and id(module) not in number_of_layers:
            module.gradient_checkpointing = False
    for number, layer in enumerate(layers):
        layer.gradient_checkpointing = number < count
    return len(layers)


def cast_trainable(model: Any, plan: PrecisionPlan) -> int:
    """Cast every trainable parameter to the plan's dtype and return the number of trainable weights.

    Call it after the last load of an adapter and before the optimizer is built. Raises TrainingFailed if nothing is
    trainable, or if a loss scaler would get float16 gradients.
    """
    wanted = getattr(torch, plan.trainable_dtype)
    trainable = trainable_parameters(model)
    for _, parameter in trainable:
        if parameter.dtype != wanted:
            parameter.data = parameter.data.to(wanted)
    if not trainable:
        raise TrainingFailed("trainable-set", "no parameter requires a gradient", hint="lora.targets")
    if plan.scaler and wanted != torch.float32:
        raise TrainingFailed("trainable-dtype", f"trainable {wanted} under a loss scaler, wanted float32")
    return sum(parameter.numel() for _, parameter in trainable)


def trainable_parameters(model: Any) -> List[Tuple[str, Any]]:
    """Return the trained parameters with their names."""
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
