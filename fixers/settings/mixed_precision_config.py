"""mixed-precision-config: YAML, JSON, TOML and INI settings select float16 instead of bfloat16.

What it does
    On a card below compute capability 8.0, changes Accelerate's `mixed_precision: bf16`, dtypes given as values, `bf16:
    true` and `auto` of Axolotl, LLaMA-Factory and Trainer arguments, `precision: bf16-mixed` of Lightning and NeMo,
    DeepSpeed's bf16 block, `tf32: true`, FlashAttention, and sequence packing that needs FlashAttention. Dtypes of
    moments, averages and reductions become float32. Lightning's `bf16-true` becomes `16-mixed`, and `torch_dtype: auto`
    becomes `float16`. Tags that name a dtype (`!name:torch.bfloat16`) are changed too.

    If `bf16` and `fp16` are both present, only their values change. If only `bf16` is present, the key is renamed to a
    float16 key that the project's classes declare. The key keeps its name if the project's own code reads only `bf16`
    (`cfg["bf16"]`) and selects float16 itself. A DeepSpeed file without an fp16 block gets one, with a dynamic loss
    scale. A YAML file of TRL arguments with a dtype and neither `bf16` nor `fp16` gets `fp16: true`, because TRL
    computes in bfloat16 by default.

    The project's own code determines the new spelling of a value (`fp16`, `half`, `16-mixed`). If the code accepts no
    float16, or if another line overwrites `fp16`, the value is not changed, and a warning names the line.

    Accelerate configs that select FSDP 1 in half precision are reported, unless the project trains whole models:
    float32 adapters cannot share flat tensors with float16 weights.

Why
    A config overrides the defaults of the script that reads it, even if the script was fixed. A renamed `bf16` next to
    `fp16: false` would leave two `fp16` keys, and the reader would use only one of them, without a message.

Before
    mixed_precision: bf16   # A100
    bf16: true
    fp16: false

After
    mixed_precision: fp16   # A100
    bf16: false
    fp16: true

What it can break
    Nothing on a card without bfloat16. A checkpoint's own config.json is never edited: the dtype is chosen when the
    checkpoint is loaded. A config.json without keys such as `model_type` or `architectures` counts as a settings file.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import posixpath

from fixers.frame.code_facts import CodeFacts
from fixers.frame.findings import warning
from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.settings.config_forms import Settings
from fixers.settings.edit_list import EditList
from fixers.settings.launch_text import LaunchText
from fixers.settings.precision_words import NEEDLES
from fixers.settings.trl_switch import add_switch_to_config
from fixers.sources.config_files import is_json, is_yaml, read_config, reads_config
from fixers.sources.json_nodes import holds_json_lines
from fixers.sources.nodes import Mapping, Node, Scalar
from fixers.sources.source import Source
from fixers.sources.unparsable import Unparsable
from fixers.sources.yaml_values import duplicates
from remote.policy.precision import BF16_FROM

name = "mixed-precision-config"
safety = "safe"
needles = NEEDLES
below = BF16_FROM
requires: tuple[str, ...] = ()
matches = reads_config

CHECKPOINT_CONFIGS = {
    "generation_config.json",
    "adapter_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "model.safetensors.index.json",
    "package-lock.json",
}
AMBIGUOUS_NAMES = {"config.json", "params.json"}
CHECKPOINT_KEYS = ("model_type", "architectures", "_class_name", "torch_dtype", "dtype", "transformers_version", "dim")
"""Keys of a checkpoint's own config. A file of training arguments with the same file name has none of these keys."""
ACCELERATE_KEYS = ("compute_environment", "distributed_type")
FSDP_KEYS = ("distributed_type", "mixed_precision")
HALVES = ("bf16", "fp16")
ONE_DTYPE = "FSDP 1 needs one dtype in each unit: float32 adapters beside frozen float16 weights cannot be wrapped"
ONE_DTYPE_HINT = "set fsdp_version: 2, or load the model in float32; mixed_precision: fp16 still computes in float16"
RUN_CONFIG_KEYS = {
    *("project", "command", "precision", "model", "lora", "data", "train", "evaluation", "fixers", "logs", "inputs"),
    *("env", "secrets", "slurm", "gpus", "processes", "restarts", "grace_s", "notify"),
}
"""The keys of a halfstep run config. Other configs may have some of these keys, such as `lora` and `precision`."""
RUN_CONFIG_PRECISIONS = {"auto", "bf16", "fp16-mixed", "fp16-pure", "fp32"}


def rewrite(source: Source, target: Target) -> Rewrite:
    """Return the edits that replace bfloat16 with float16 in a settings file."""
    if posixpath.basename(source.path) in CHECKPOINT_CONFIGS:
        return NOTHING
    try:
        documents = read_config(source.path, source.data)
    except Unparsable as error:
        if is_json(source.path) and holds_json_lines(source.data):
            return NOTHING
        message = f"could not be parsed ({error.message}); left unchanged"
        return _unchanged(source, error.line, message, "check its precision by hand")
    settings = Settings(EditList(source.path, source.data, name), target.code_facts)
    for document in documents:
        twice = duplicates(document)
        if twice:
            message = f"{twice[0].path[-1]} occurs twice (first in line {twice[0].first.line}); left unchanged"
            return _unchanged(source, twice[0].second.line, message, "keep one of the two")
        if not target.code_facts.traits.trains_whole_models:
            _warn_of_fsdp(settings, document)
        if not _is_checkpoint_config(source.path, document):
            settings.code_facts = CodeFacts() if _is_accelerate_config(document) else target.code_facts
            settings.read(document, is_run_config(document))
            if is_yaml(source.path) and isinstance(document, Mapping):
                add_switch_to_config(settings.edit_list, document, settings.code_facts)
    return settings.edit_list.rewrite


def rewrite_launch(launch: LaunchText, target: Target) -> Rewrite:
    """Return the edits that select float16 in the job's environment variables."""
    settings = Settings(EditList("env", launch.data, name), target.code_facts)
    settings.read(launch.env)
    return settings.edit_list.rewrite


def _unchanged(source: Source, line: int, message: str, hint: str) -> Rewrite:
    return Rewrite(findings=(warning(name, message, f"{source.path}:{line}", hint),))


def _warn_of_fsdp(settings: Settings, document: Node) -> None:
    """Warn about FSDP 1 in an Accelerate config.

    FSDP 1 flattens the parameters of a unit into one tensor of one dtype.
    """
    kind, word = (document.get(key) if isinstance(document, Mapping) else None for key in FSDP_KEYS)
    if not isinstance(kind, Scalar) or kind.text != "FSDP" or not isinstance(word, Scalar) or word.text not in HALVES:
        return
    assert isinstance(document, Mapping)
    inner = document.get("fsdp_config")
    version = inner.get("fsdp_version") if isinstance(inner, Mapping) else None
    if not isinstance(version, Scalar) or version.text != "2":
        settings.warn(kind, ONE_DTYPE, ONE_DTYPE_HINT)


def is_run_config(document: Node) -> bool:
    """Return True for a halfstep run config. halfstep resolves its `precision` for the card at run time."""
    if not isinstance(document, Mapping):
        return False
    precision = document.get("precision")
    chosen = precision.text if isinstance(precision, Scalar) else "auto"
    keys = {key.text if isinstance(key, Scalar) else "" for key, _ in document.entries}
    only_precision = keys <= {"precision"}
    return not only_precision and keys <= RUN_CONFIG_KEYS and chosen in RUN_CONFIG_PRECISIONS


def _is_accelerate_config(document: Node) -> bool:
    """Return True for a config of `accelerate launch`. The project's code does not read such a config."""
    return isinstance(document, Mapping) and any(document.get(key) is not None for key in ACCELERATE_KEYS)


def _is_checkpoint_config(path: str, document: Node) -> bool:
    """Return True for a model checkpoint's config, judged by its file name and its keys."""
    if not isinstance(document, Mapping):
        return False
    if posixpath.basename(path) in AMBIGUOUS_NAMES:
        return any(document.get(key) is not None for key in CHECKPOINT_KEYS)
    return all(document.get(key) is not None for key in ("architectures", "model_type"))
