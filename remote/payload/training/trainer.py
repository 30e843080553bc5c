"""transformers' Trainer with a precision plan and a fixed order of samples."""

from __future__ import annotations

from typing import Any, Dict, List

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from remote.payload.training.base_model import cast_trainable
from remote.payload.training.batches import EpochOrder
from remote.payload.training.collator import SAMPLES
from remote.payload.training.process_group import on_several_hosts, shares_run_folder
from remote.protocol.precision import PrecisionPlan
from remote.protocol.training import MemoryPlan, TrainingSpec


class EpochSetter(TrainerCallback):  # type: ignore[misc]
    """Sets the epoch of the sample order before the epoch begins.

    accelerate 1.15 does not set it if several processes resume in the middle of an epoch, because it unwraps only two
    of the three nested batch samplers.
    """

    def __init__(self, order: EpochOrder) -> None:
        self.order = order

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.order.set_epoch(int(state.epoch))


class AudioTrainer(Trainer):  # type: ignore[misc]
    """Casts trained parameters before the optimizer is built, and uses the plan's loss scaler and a fixed sample order.

    `step_samples` and `step_tokens` are the numbers of samples and tokens in the current optimizer step. `validation`
    is the callback that measures the validation loss, or None without validation.
    """

    def __init__(self, *, plan: PrecisionPlan, order: EpochOrder, **kwargs: Any) -> None:
        self.plan = plan
        self.order = order
        self.step_samples: List[str] = []
        self.step_tokens = 0
        self.validation: Any = None
        super().__init__(**kwargs)
        self.add_callback(EpochSetter(order))

    def create_accelerator_and_postprocess(self) -> None:
        """Use the plan's scaler on every device. On a CPU, Accelerate would disable the scaler and autocast."""
        super().create_accelerator_and_postprocess()
        if self.plan.scaler:
            device = self.accelerator.device.type
            self.accelerator.scaler = torch.amp.GradScaler(device, init_scale=self.plan.init_scale)
            self.accelerator.native_amp = True

    def create_optimizer(self, model: Any = None) -> Any:
        """Cast the trained parameters first.

        The adapters are attached and loaded at this point, so the dtypes are final.
        """
        cast_trainable(self.model, self.plan)
        return super().create_optimizer(model)

    def is_local_process_zero(self) -> bool:
        """Return True for the process that writes to the run's folder on this host."""
        return bool(super().is_local_process_zero()) and (self.is_world_process_zero() or not shares_run_folder())

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        return self.order

    def training_step(self, model: Any, inputs: Dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        for name, tokens in inputs.pop(SAMPLES):
            self.step_samples.append(name)
            self.step_tokens += tokens
        loss: torch.Tensor = super().training_step(model, inputs, num_items_in_batch)
        return loss

    def floating_point_ops(self, inputs: Dict[str, Any]) -> int:
        """Return 0, because transformers' estimate is for text models."""
        return 0


def training_arguments(spec: TrainingSpec, *, device: str) -> TrainingArguments:
    """Return the spec as TrainingArguments, before the memory is planned.

    Trainer's checkpoint rotation and gradient checkpointing are disabled; `Publisher` and `checkpoint_layers` do this
    instead.
    """
    loop, plan = spec.train, spec.precision
    return TrainingArguments(
        output_dir=spec.paths.checkpoints,
        num_train_epochs=loop.epochs,
        max_steps=loop.max_steps or -1,
        per_device_train_batch_size=loop.batch_size,
        gradient_accumulation_steps=loop.gradient_accumulation,
        learning_rate=loop.learning_rate,
        lr_scheduler_type=loop.scheduler,
        warmup_steps=loop.warmup_steps,
        weight_decay=loop.weight_decay,
        max_grad_norm=loop.max_grad_norm,
        seed=loop.seed,
        data_seed=loop.seed,
        fp16=plan.autocast_dtype == "float16",
        bf16=plan.autocast_dtype == "bfloat16",
        tf32=plan.tf32 if device == "cuda" else None,
        optim="adamw_torch",
        gradient_checkpointing=False,
        save_strategy="steps" if loop.save_steps else "epoch",
        save_steps=loop.save_steps or 500,
        save_total_limit=None,
        save_only_model=False,
        save_on_each_node=on_several_hosts() and not shares_run_folder(),
        logging_strategy="steps",
        logging_steps=loop.logging_steps,
        logging_first_step=True,
        logging_nan_inf_filter=False,
        eval_strategy="no",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        label_names=["labels"],
        dataloader_num_workers=0,
        dataloader_pin_memory=device == "cuda",
        ddp_find_unused_parameters=False,
        use_cpu=device == "cpu",
    )


def use_memory_plan(arguments: TrainingArguments, plan: MemoryPlan) -> None:
    """Set the micro-batch size and the gradient accumulation of the plan."""
    arguments.per_device_train_batch_size = plan.micro_batch
    arguments.gradient_accumulation_steps = plan.accumulation
