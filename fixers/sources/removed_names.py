"""Names that training scripts use and that newer versions of their libraries lack, with what to use instead."""

from __future__ import annotations

import re

from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class Gone:
    """The package, a version that lacks the name, and what to write instead."""

    package: str
    since: tuple[int, ...]
    instead: str


V5, V5_4 = ("transformers", (5,)), ("transformers", (5, 4))
LIGHTNING = ("pytorch-lightning", (2,))
ADAMW = Gone(
    "transformers",
    (4, 50),
    "from torch.optim import AdamW; AdamW(..., weight_decay=0.0, eps=1e-6) keeps the defaults of transformers, "
    "those of torch are 0.01 and 1e-8",
)
METRICS = Gone("datasets", (3,), "import evaluate; evaluate.load(...) takes the same names, from the package evaluate")
TEXTS = Gone(*V5, 'datasets.load_dataset("text", data_files=...), then map a tokenizer over it')
STRATEGY = Gone(*LIGHTNING, 'from pytorch_lightning.strategies import DDPStrategy, or Trainer(strategy="ddp")')
STATS = Gone(*LIGHTNING, "from pytorch_lightning.callbacks import DeviceStatsMonitor")
LOGGER = Gone(*LIGHTNING, "from pytorch_lightning.loggers.logger import Logger")
RANK_ZERO = Gone(*LIGHTNING, "import it from pytorch_lightning.utilities")
PARSER = Gone(*LIGHTNING, "add the options to the parser yourself, and call Trainer(max_epochs=args.max_epochs, ...)")
NAMES: dict[str, Gone] = {
    "transformers.AdamW": ADAMW,
    "transformers.optimization.AdamW": ADAMW,
    "transformers.AutoModelWithLMHead": Gone(
        *V5, "AutoModelForCausalLM, AutoModelForMaskedLM or AutoModelForSeq2SeqLM, as the model needs"
    ),
    "transformers.AutoModelForVision2Seq": Gone(*V5, "from transformers import AutoModelForImageTextToText"),
    "transformers.Wav2Vec2Tokenizer": Gone(
        *V5, "from transformers import Wav2Vec2CTCTokenizer, or Wav2Vec2Processor for audio and text"
    ),
    "transformers.LineByLineTextDataset": TEXTS,
    "transformers.TextDataset": TEXTS,
    "transformers.is_torch_tpu_available": Gone(
        "transformers", (4, 51), "from transformers import is_torch_xla_available"
    ),
    "transformers.utils.send_example_telemetry": Gone(
        "transformers", (4, 57), "delete the import and the call: it only counted examples"
    ),
    "transformers.trainer_utils.ShardedDDPOption": Gone(
        "transformers", (4, 49), "delete it: TrainingArguments has fsdp= and deepspeed= instead"
    ),
    "datasets.load_metric": METRICS,
    "datasets.list_metrics": Gone("datasets", (3,), "evaluate.list_evaluation_modules(), from the package evaluate"),
    "datasets.Metric": Gone("datasets", (3,), "from evaluate import Metric"),
    "datasets.MetricInfo": Gone("datasets", (3,), "from evaluate import MetricInfo"),
    "datasets.list_datasets": Gone("datasets", (3,), "huggingface_hub.list_datasets()"),
    "peft.prepare_model_for_int8_training": Gone(
        "peft", (0, 10), "from peft import prepare_model_for_kbit_training, which takes the same model"
    ),
    "accelerate.utils.is_tpu_available": Gone(
        "accelerate", (0, 34), "from accelerate.utils import is_torch_xla_available"
    ),
    "accelerate.memory_utils.find_executable_batch_size": Gone(
        "accelerate", (0, 34), "from accelerate.utils import find_executable_batch_size"
    ),
    "trl.DataCollatorForCompletionOnlyLM": Gone(
        "trl", (0, 20), "SFTConfig(completion_only_loss=True), with the columns prompt and completion"
    ),
    "trl.setup_chat_format": Gone("trl", (1,), "from trl import clone_chat_template"),
    "pytorch_lightning.Trainer.add_argparse_args": PARSER,
    "pytorch_lightning.Trainer.from_argparse_args": PARSER,
    "pytorch_lightning.loggers.LightningLoggerBase": LOGGER,
    "pytorch_lightning.loggers.TestTubeLogger": Gone(
        *LIGHTNING, "from pytorch_lightning.loggers import TensorBoardLogger, or CSVLogger"
    ),
    "pytorch_lightning.plugins.DDPPlugin": STRATEGY,
    "pytorch_lightning.strategies.DataParallelStrategy": STRATEGY,
    "pytorch_lightning.strategies.DDPShardedStrategy": STRATEGY,
    "pytorch_lightning.strategies.DDPSpawnStrategy": STRATEGY,
    "pytorch_lightning.callbacks.GPUStatsMonitor": STATS,
    "pytorch_lightning.callbacks.XLAStatsMonitor": STATS,
    "pytorch_lightning.utilities.seed.seed_everything": Gone(
        *LIGHTNING, "from pytorch_lightning import seed_everything"
    ),
    "pytorch_lightning.utilities.distributed.rank_zero_only": RANK_ZERO,
    "pytorch_lightning.utilities.distributed.rank_zero_info": RANK_ZERO,
    "pytorch_lightning.utilities.distributed.rank_zero_warn": RANK_ZERO,
}
MODULES: dict[str, Gone] = {
    "transformers.deepspeed": Gone("transformers", (4, 49), "import from transformers.integrations.deepspeed"),
    "pytorch_lightning.metrics": Gone(*LIGHTNING, "import from torchmetrics"),
    "pytorch_lightning.core.lightning": Gone(*LIGHTNING, "from pytorch_lightning import LightningModule"),
    "pytorch_lightning.loggers.base": LOGGER,
    "pytorch_lightning.profiler": Gone(*LIGHTNING, "import from pytorch_lightning.profilers"),
    "pytorch_lightning.utilities.cli": Gone(*LIGHTNING, "import from pytorch_lightning.cli"),
}
METHODS: dict[str, Gone] = {
    "as_target_processor": Gone(*V5, "delete the `with`: processor(text=...).input_ids are the labels"),
    "as_target_tokenizer": Gone(*V5, "delete the `with`: tokenizer(text_target=...).input_ids are the labels"),
    "freeze_feature_extractor": Gone(*V5, "model.freeze_feature_encoder()"),
    "encode_plus": Gone(*V5_4, "call the tokenizer itself, with the same arguments: tokenizer(text, ...)"),
    "batch_encode_plus": Gone(*V5_4, "call the tokenizer itself, with the same arguments: tokenizer(texts, ...)"),
}
CUT = "the precision of Trainer alone selects mixed precision; delete it"
TRAINER_ARGUMENTS = {
    "gpus": 'accelerator="gpu", devices={}',
    "tpu_cores": 'accelerator="tpu", devices={}',
    "num_processes": "devices={}",
    "auto_select_gpus": 'devices="auto"',
    "distributed_backend": "strategy={}",
    "auto_scale_batch_size": "delete it; before fit: Tuner(trainer).scale_batch_size(model), from lightning's tuner",
    "auto_lr_find": "delete it; before fit: Tuner(trainer).lr_find(model), from lightning's tuner",
    "progress_bar_refresh_rate": "callbacks=[TQDMProgressBar(refresh_rate={})], or enable_progress_bar=False",
    "process_position": "callbacks=[TQDMProgressBar(process_position={})]",
    "weights_summary": "enable_model_summary=False, or callbacks=[ModelSummary(max_depth=1)]",
    "checkpoint_callback": "enable_checkpointing=True or False; a ModelCheckpoint belongs in callbacks=[...]",
    "resume_from_checkpoint": "delete it; trainer.fit(model, ckpt_path={})",
    "weights_save_path": "default_root_dir={}",
    "flush_logs_every_n_steps": "delete it; the logger takes it, as in CSVLogger(..., flush_logs_every_n_steps={})",
    "log_gpu_memory": "callbacks=[DeviceStatsMonitor()]",
    "stochastic_weight_avg": "callbacks=[StochasticWeightAveraging(swa_lrs=1e-2)]",
    "terminate_on_nan": "detect_anomaly={}",
    "track_grad_norm": "delete it; log lightning's grad_norm(self, 2) in on_before_optimizer_step",
    "replace_sampler_ddp": "use_distributed_sampler={}",
    "reload_dataloaders_every_epoch": "reload_dataloaders_every_n_epochs=1",
    "prepare_data_per_node": "delete it; set self.prepare_data_per_node in the LightningDataModule",
    "multiple_trainloader_mode": "delete it; CombinedLoader(loaders, mode={})",
    "truncated_bptt_steps": "delete it; truncate the sequences in training_step, with manual optimization",
    "move_metrics_to_cpu": "delete it; move the metrics in training_step",
    "amp_backend": CUT,
    "amp_level": CUT,
}
"""Arguments of Lightning's Trainer that version 2 rejects, with their replacement. `{}` is the argument's value."""
PLACEHOLDER = "VALUE"
SIMPLE = re.compile(r"(?=.{1,40}\Z)(?:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*|[+-]?\d[\w.]*(?:e[+-]\d+)?)", re.ASCII)
"""A name, a dotted name, a number, True, False or None."""
STRATEGIES = ("ddp", "ddp_spawn", "ddp_cpu", "ddp2", "dp")
"""Values of `accelerator` before Lightning 2: they select a strategy."""
REMOVED_STRATEGIES = ("dp", "ddp2", "ddp_cpu", "ddp_sharded", "ddp_sharded_spawn")
HOOKS = {
    "training_epoch_end": "on_train_epoch_end(self)",
    "validation_epoch_end": "on_validation_epoch_end(self)",
    "test_epoch_end": "on_test_epoch_end(self)",
}
IN_HOOK = "{}, with the outputs that the step hook collected in a list of the module"
WITHOUT_TORCH = re.compile(r"transformers\.(?:TF|Flax)(?=[A-Z])\w+$")
WITHOUT_IMAGES = re.compile(
    r"transformers\.(Beit|CLIP|ChineseCLIP|ConvNext|DPT|DeiT|Detr|Donut|Flava|ImageGPT|LayoutLMv[23]|Levit|MaskFormer"
    r"|MobileNetV[12]|MobileViT|OwlViT|Perceiver|PoolFormer|Segformer|ViT|VideoMAE|Vilt|Yolos)FeatureExtractor$"
)


def find_gone(qualified: str) -> Gone | None:
    """Return the entry of a qualified name, or of a module in its path, or None."""
    name = _usual(qualified)
    if known := NAMES.get(name):
        return known
    if WITHOUT_TORCH.match(name):
        plain = re.sub(r"(?<=\.)(?:TF|Flax)", "", name).rpartition(".")[2]
        return Gone(*V5, f"the class for torch, {plain}: transformers 5 supports neither TensorFlow nor JAX")
    if found := WITHOUT_IMAGES.match(name):
        return Gone(*V5, f"from transformers import {found[1]}ImageProcessor")
    return next((gone for module, gone in MODULES.items() if f"{name}.".startswith(f"{module}.")), None)


def gone_called(name: str) -> Gone | None:
    """Return the entry of a name or a module as an error message names it, or None."""
    words = {key.rpartition(".")[2]: gone for key, gone in NAMES.items()}
    known = words.get(name) or METHODS.get(name) or find_gone(name) or find_gone(f"transformers.{name}")
    return known or next((gone for key, gone in NAMES.items() if key.startswith(f"{_usual(name)}.")), None)


def _usual(qualified: str) -> str:
    """Return the name with the usual one of Lightning's two module names."""
    return re.sub(r"^lightning\.(?:pytorch\.)?", "pytorch_lightning.", qualified)


def instead_of_argument(name: str, value: str = PLACEHOLDER) -> str:
    """Return what to pass to Lightning's Trainer instead of the argument.

    A value that is more than a name or a number is not repeated: it is text of the project, and the result is a hint of
    halfstep, which a user may paste.
    """
    if name == "gpus" and value in ("0", "None"):
        return 'accelerator="cpu"'
    return TRAINER_ARGUMENTS[name].format(value if SIMPLE.fullmatch(value) else PLACEHOLDER)


def strategy_instead_of(value: str) -> str:
    """Return the argument of Lightning 2 for this value of `accelerator` or `strategy` of earlier versions."""
    return 'strategy="ddp"' if value in REMOVED_STRATEGIES else f'strategy="{value}"'
