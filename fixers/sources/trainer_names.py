"""Trainer arguments that transformers and TRL renamed or removed, with the version of the change."""

from __future__ import annotations

from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class Renamed:
    """The new name, and the first version that rejects the old name.

    `value`: the new value of a switch that is True.
    """

    to: str
    package: str
    since: tuple[int, ...]
    value: str = ""


@dataclass(frozen=True)
class Removed:
    """A removed argument. `instead` is the hint to report, or empty if the argument had no effect.

    `variable`: the environment variable that replaces the argument.
    """

    package: str
    since: tuple[int, ...]
    instead: str = ""
    variable: str = ""


V5 = ("transformers", (5,))
ARGUMENTS: dict[str, Renamed | Removed] = {
    "evaluation_strategy": Renamed("eval_strategy", "transformers", (4, 51)),
    "warmup_ratio": Renamed("warmup_steps", "transformers", (5, 15)),
    "group_by_length": Renamed("train_sampling_strategy", "transformers", (5, 2), '"group_by_length"'),
    "no_cuda": Renamed("use_cpu", *V5),
    "per_gpu_train_batch_size": Renamed("per_device_train_batch_size", *V5),
    "per_gpu_eval_batch_size": Renamed("per_device_eval_batch_size", *V5),
    "push_to_hub_token": Renamed("hub_token", *V5),
    "push_to_hub_model_id": Renamed("hub_model_id", *V5),
    "logging_dir": Removed("transformers", (5, 15), "set TENSORBOARD_LOGGING_DIR instead", "TENSORBOARD_LOGGING_DIR"),
    "fsdp_min_num_params": Removed(*V5, instead="set it inside fsdp_config"),
    "fsdp_transformer_layer_cls_to_wrap": Removed(*V5, instead="set it inside fsdp_config"),
    "include_inputs_for_metrics": Removed(*V5, instead='use include_for_metrics=["inputs"]'),
    "overwrite_output_dir": Removed(*V5),
    "save_safetensors": Removed(*V5),
    "use_mps_device": Removed(*V5),
    "past_index": Removed(*V5),
    "fp16_backend": Removed(*V5),
    "half_precision_backend": Removed(*V5),
    "jit_mode_eval": Removed(*V5),
    "tpu_num_cores": Removed(*V5),
    "ray_scope": Removed(*V5),
    "include_tokens_per_second": Removed(*V5),
}
TRL_ARGUMENTS: dict[str, Renamed | Removed] = {"max_seq_length": Renamed("max_length", "trl", (0, 20))}
TRAINER: dict[str, Renamed | Removed] = {"tokenizer": Renamed("processing_class", *V5)}
TRL_TRAINER: dict[str, Renamed | Removed] = {"tokenizer": Renamed("processing_class", "trl", (0, 16))}
TRAIN: dict[str, Renamed | Removed] = {"model_path": Renamed("resume_from_checkpoint", *V5)}
OLD_TRL = frozenset(
    {"dataset_text_field", "max_seq_length", "max_length", "max_prompt_length", "packing", "eval_packing"}
    | {"dataset_num_proc", "dataset_batch_size", "dataset_kwargs", "num_of_sequences", "chars_per_token"}
    | {"model_init_kwargs", "neftune_noise_alpha", "beta", "loss_type"}
)
"""Arguments of TRL's trainers that moved to their configs before `tokenizer` was removed."""
TRL_PROCESSING_CLASS = ("trl", (0, 12))
"""The first TRL version whose trainers accept `processing_class`."""
