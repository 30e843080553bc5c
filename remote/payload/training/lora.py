"""The LoRA settings of PEFT: which parts of the model get an adapter, and which modules are trained in full."""

from __future__ import annotations

import difflib
import os
import re
from typing import Any, Dict, Iterator, List, Protocol, Tuple

import torch
from peft import LoraConfig, PeftConfig
from peft.tuners.lora import LoraLayer

from remote.payload.training.failure import TrainingFailed
from remote.payload.training.families.audio_model import AudioModel, Part
from remote.protocol.exits import ExitCode
from remote.protocol.training import FRESH, LoraSpec


class Checkpoint(Protocol):
    """The properties of the base model that an adapter depends on."""

    @property
    def family(self) -> AudioModel:
        """The model family."""

    @property
    def source(self) -> str:
        """A hub id or a folder."""

    @property
    def revision(self) -> Any:
        """The revision of a hub id, or None for the default revision."""


def adapter_source(base: Checkpoint, adapter: str) -> Tuple[str, Dict[str, Any]]:
    """Return the source of the adapter to continue from, with the keyword arguments of its `from_pretrained`."""
    if os.path.isdir(adapter):
        return adapter, {}
    hub_kwargs = {"revision": base.revision} if base.revision and not os.path.isdir(base.source) else {}
    return base.source, {"subfolder": f"{adapter}-lora", **hub_kwargs}


def adapter_config(base: Checkpoint, adapter: str, lora: LoraSpec) -> Any:
    """Return the PEFT config of the adapter that will be trained."""
    if adapter == FRESH:
        return lora_config(base, lora)
    source, adapter_kwargs = adapter_source(base, adapter)
    return PeftConfig.from_pretrained(source, **adapter_kwargs)


def lora_config(base: Checkpoint, lora: LoraSpec) -> Any:
    """Return LoRA on the linear layers of the chosen parts only. Other parts may have layers of the same names."""
    family = base.family
    return LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules="|".join(_pattern(part, lora) for part in _parts(family, lora)),
        modules_to_save=list(lora.modules_to_save) or None,
        use_rslora=lora.use_rslora,
        use_dora=lora.use_dora,
        bias="none",
        task_type="CAUSAL_LM",
        revision=base.revision,
        # The class that loads the base model. PEFT records this class only in adapters without a task type.
        auto_mapping={"base_model_class": family.class_name, "parent_library": "transformers"},
    )


def _parts(family: AudioModel, lora: LoraSpec) -> List[Part]:
    return [getattr(family, name) for name in lora.parts]


def _pattern(part: Part, lora: LoraSpec) -> str:
    return rf"{part.path}\.(?:.*\.)?(?:{'|'.join(lora.targets or part.linear)})"


def check_modules(model: Any, family: AudioModel, lora: LoraSpec) -> None:
    """Raise TrainingFailed for a layer or module that the model does not have, or that cannot be trained in full."""
    modules = dict(model.named_modules())
    parts = _parts(family, lora)
    inside = [path for path in modules if any(re.match(part.path, path) for part in parts)]
    for name in lora.targets or ():
        pattern = "|".join(rf"{part.path}\.(?:.*\.)?{re.escape(name)}" for part in parts)
        if not any(re.fullmatch(pattern, path) for path in inside):
            _refuse("lora.targets", name, f"the {' or '.join(lora.parts)} has no such layer", inside)
    for name in lora.modules_to_save:
        matches = [module for path, module in modules.items() if f".{path}".endswith(f".{name}")]
        if not matches:
            _refuse("lora.modules_to_save", name, "the model has no such module", list(modules))
        if any(_holds_embeddings(model, module) for module in matches):
            message = f"lora.modules_to_save: {name} shares the weights of the token embeddings, which stay frozen"
            raise TrainingFailed("lora-modules", message, exit_code=ExitCode.USAGE)


def _holds_embeddings(model: Any, module: Any) -> bool:
    embeddings = model.get_input_embeddings().weight
    return any(parameter is embeddings for parameter in module.parameters())


def _refuse(key: str, name: str, problem: str, paths: List[str]) -> None:
    names = sorted({path.rpartition(".")[2] for path in paths if not path.rpartition(".")[2].isdigit()})
    near = difflib.get_close_matches(name, names, n=1)
    message = f"{key}: {name}: {problem}{f'; did you mean {near[0]}?' if near else ''}"
    raise TrainingFailed("lora-modules", message, exit_code=ExitCode.USAGE)


def is_trained(module: Any) -> bool:
    """Return True if a parameter of the module requires a gradient."""
    return any(parameter.requires_grad for parameter in module.parameters())


def embed_audio(model: Any, family: AudioModel) -> None:
    """Make the model embed audio in eval mode, clip by clip, and without a graph if no module for audio is trained."""
    family.adjust(model)
    trained = False
    for path in family.audio:
        module = model.get_submodule(path)
        trained = trained or is_trained(module)
        if not trained:
            _run_without_graph(module)
        _keep_in_eval_mode(module)


def trains_encoder(model: Any, family: AudioModel) -> bool:
    """Return True if the backward pass goes through the layers of the audio encoder."""
    wrapped = re.compile(r"\.(?:original_module|modules_to_save\.[^.]+)(?=\.)")
    names = (name for name, parameter in model.named_parameters() if parameter.requires_grad)
    return any(re.match(rf"{family.encoder.path}\.", wrapped.sub("", name)) for name in names)


def _run_without_graph(module: Any) -> None:
    forward = module.forward

    def without_graph(*inputs: Any, **named: Any) -> Any:
        with torch.no_grad():
            return forward(*inputs, **named)

    module.forward = without_graph


def _keep_in_eval_mode(module: Any) -> None:
    """Keep the pretrained layers in eval mode, without dropout and batch statistics.

    Only LoRA's dropout follows the mode of the model.
    """
    module.eval()

    def train(mode: bool = True) -> Any:
        for dropout in _adapter_dropouts(module):
            dropout.train(mode)
        return module

    module.train = train


def _adapter_dropouts(module: Any) -> Iterator[Any]:
    return (layer.lora_dropout for layer in module.modules() if isinstance(layer, LoraLayer))
