"""The base model with its adapter, in the dtypes of the precision plan."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from peft import LoraConfig, PeftConfig, PeftModel, get_peft_model
from transformers import AutoConfig, AutoTokenizer
from transformers.modeling_layers import GradientCheckpointingLayer

from remote.payload.training.failure import TrainingFailed
from remote.payload.training.label_loss import use_label_loss
from remote.payload.training.registry import AudioModel, find_model
from remote.protocol.exits import ExitCode
from remote.protocol.precision import PrecisionPlan
from remote.protocol.training import FRESH, LoraSpec, ModelSpec


@dataclass(frozen=True)
class BaseModel:
    """What is loaded before any weight: config, model family, tokenizer and feature extractor, and the source."""

    source: str
    revision: Any
    trust_remote_code: bool
    config: Any
    family: AudioModel
    tokenizer: Any
    extractor: Any

    @property
    def pad_id(self) -> int:
        """The token id that pads short rows; padding is neither attended to nor labelled."""
        token = self.tokenizer.pad_token_id
        return int(token if token is not None else self.tokenizer.eos_token_id)


def read_base(spec: ModelSpec, source: str) -> BaseModel:
    """Load config, tokenizer and feature extractor of the model at `source` (a hub id or folder).

    Raises TrainingFailed for an unknown family or a tokenizer without the audio token.
    """
    hub_kwargs = {"revision": spec.revision} if spec.revision and not os.path.isdir(source) else {}
    config = AutoConfig.from_pretrained(source, trust_remote_code=spec.trust_remote_code, **hub_kwargs)
    family = find_model(config.model_type)
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
    extractor = family.extractor_class.from_pretrained(source, **hub_kwargs)
    return BaseModel(source, spec.revision, spec.trust_remote_code, config, family, tokenizer, extractor)


def load_model(base: BaseModel, plan: PrecisionPlan, adapter: str, lora: LoraSpec, device: str) -> Any:
    """Load the model on `device` with one trainable adapter; frozen weights have the plan's dtype.

    Audio is embedded without a graph. `cast_trainable` sets the adapter's dtype later, since a resume loads it again.
    """
    hub_kwargs = {"revision": base.revision} if base.revision and not os.path.isdir(base.source) else {}
    model = base.family.model_class.from_pretrained(
        base.source,
        dtype=getattr(torch, plan.frozen_dtype),
        attn_implementation=plan.attention,
        device_map={"": device} if device != "cpu" else None,
        **hub_kwargs,
    )
    freeze_base(model, base)
    if adapter == FRESH:
        return get_peft_model(model, lora_config(base, lora))
    source, adapter_kwargs = adapter_source(base, adapter)
    return PeftModel.from_pretrained(model, source, is_trainable=True, **adapter_kwargs)


def freeze_base(model: Any, base: BaseModel) -> None:
    """Freeze all weights, embed audio without a graph, and compute the loss from label positions only."""
    model.config.use_cache = False
    use_label_loss(model)
    model.requires_grad_(False)
    for path in base.family.unbatched:
        encode_separately(model.get_submodule(path))
    for path in base.family.frozen:
        run_without_graph(model.get_submodule(path))


def adapter_source(base: BaseModel, adapter: str) -> Tuple[str, Dict[str, Any]]:
    """Return where an adapter to continue from is, with the keyword arguments of its `from_pretrained`."""
    if os.path.isdir(adapter):
        return adapter, {}
    hub_kwargs = {"revision": base.revision} if base.revision and not os.path.isdir(base.source) else {}
    return base.source, {"subfolder": f"{adapter}-lora", **hub_kwargs}


def adapter_config(base: BaseModel, adapter: str, lora: LoraSpec) -> Any:
    """Return the PEFT config of the adapter that will be trained."""
    if adapter == FRESH:
        return lora_config(base, lora)
    source, adapter_kwargs = adapter_source(base, adapter)
    return PeftConfig.from_pretrained(source, **adapter_kwargs)


def lora_config(base: BaseModel, lora: LoraSpec) -> Any:
    """Return LoRA on the language model's own linear layers; other towers have layers of the same names."""
    names = "|".join(lora.targets or base.family.targets)
    return LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=rf"{base.family.layers}\.(?:.*\.)?(?:{names})",
        bias="none",
        task_type="CAUSAL_LM",
        revision=base.revision,
    )


def checkpoint_layers(model: Any, count: int) -> int:
    """Checkpoint the first `count` layers of the language model, and no other; return how many layers it has.

    The last layers keep their activations: the backward pass frees those before it recomputes any layer.
    """
    if count:
        model.get_base_model().gradient_checkpointing_enable({"use_reentrant": False})
    layers = model.get_base_model().get_decoder().layers
    found = {id(layer) for layer in layers}
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer) and id(module) not in found:
            module.gradient_checkpointing = False
    for number, layer in enumerate(layers):
        layer.gradient_checkpointing = number < count
    return len(layers)


def run_without_graph(module: Any) -> None:
    """Keep `module` in eval mode permanently, and run its forward without a graph."""
    forward: Callable[..., Any] = module.forward

    def without_graph(*inputs: Any, **named: Any) -> Any:
        with torch.no_grad():
            return forward(*inputs, **named)

    module.eval()
    module.forward = without_graph
    module.train = lambda mode=True: module


def encode_separately(encoder: Any) -> None:
    """Make `encoder` encode each clip of a batch as if it were alone.

    transformers adds Phi-4's padding mask (0 and 1) to a bias instead of masking the padding
    (modeling_phi4_multimodal.py, `Phi4MultimodalAudioModel.forward`), so in a batch a clip would depend on its
    neighbours, while inference is mostly on a single clip.
    """
    forward: Callable[..., Any] = encoder.forward

    def each(features: torch.Tensor, mask: Optional[torch.Tensor] = None, **named: Any) -> torch.Tensor:
        if mask is None:
            out: torch.Tensor = forward(features, mask, **named)
            return out
        lengths = mask.sum(dim=1).tolist()
        rows = [forward(clip[None, :length], None, **named)[0] for clip, length in zip(features, lengths)]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    encoder.forward = each


def cast_trainable(model: Any, plan: PrecisionPlan) -> int:
    """Cast every trainable parameter to the plan's dtype and return how many weights there are.

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
    """Return the trained parameters by name."""
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
