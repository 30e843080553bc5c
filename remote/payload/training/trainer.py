"""transformers' Trainer, told what a precision plan means and in which order to take the samples."""

from __future__ import annotations

from typing import Any, Dict, List

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from remote.payload.training.base_model import cast_trainable
from remote.payload.training.batches import EpochOrder
from remote.payload.training.collator import SAMPLE_IDS
from remote.protocol.precision import PrecisionPlan
from remote.protocol.training import TrainingSpec


class TellsEpoch(TrainerCallback):  # type: ignore[misc]
    """The order knows the epoch before it is asked for samples.

    Where a resumed epoch of several processes begins in its middle, nobody else tells it: accelerate 1.15 sets the
    epoch through two wrapped batch samplers, and there it has three.
    """

    def __init__(self, order: EpochOrder) -> None:
        self.order = order

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        self.order.set_epoch(int(state.epoch))


class AudioTrainer(Trainer):  # type: ignore[misc]
    """Casts trainables before the optimizer exists, scales losses where the plan says so, keeps an epoch's order.

    `step_samples`, `step_losses` and `step_tokens` are of the optimizer step at work.
    """

    def __init__(self, *, plan: PrecisionPlan, order: EpochOrder, **told: Any) -> None:
        self.plan = plan
        self.order = order
        self.step_samples: List[str] = []
        self.step_losses: List[torch.Tensor] = []
        self.step_tokens = 0
        super().__init__(**told)
        self.add_callback(TellsEpoch(order))

    def create_accelerator_and_postprocess(self) -> None:
        """The scaler is the plan's on every device; Accelerate would leave it and autocast away on a CPU."""
        super().create_accelerator_and_postprocess()
        if self.plan.scaler:
            self.accelerator.scaler = torch.amp.GradScaler(
                self.accelerator.device.type,
                init_scale=self.plan.init_scale,
                growth_interval=self.plan.growth_interval,
            )
            self.accelerator.native_amp = True

    def create_optimizer(self, model: Any = None) -> Any:
        """Adapters were attached, and loaded again where a run is resumed: from here on no dtype changes."""
        cast_trainable(self.model, self.plan)
        return super().create_optimizer(model)

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        return self.order

    def training_step(self, model: Any, inputs: Dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        self.step_samples += inputs.pop(SAMPLE_IDS)
        self.step_tokens += int(inputs["attention_mask"].sum())
        loss: torch.Tensor = super().training_step(model, inputs, num_items_in_batch)
        self.step_losses.append(loss)
        return loss

    def floating_point_ops(self, inputs: Dict[str, Any]) -> int:
        """Not counted: the estimate there is for text models."""
        return 0


def training_arguments(spec: TrainingSpec, *, device: str) -> TrainingArguments:
    """The spec in transformers' words. Checkpoints are rotated by us, never by Trainer."""
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
        gradient_checkpointing=loop.gradient_checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False} if loop.gradient_checkpointing else None,
        save_strategy="steps" if loop.save_steps else "epoch",
        save_steps=loop.save_steps or 500,
        save_total_limit=None,
        save_only_model=False,
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
