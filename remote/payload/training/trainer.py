"""transformers' Trainer with a precision plan and a fixed order of samples."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Tuple

import torch
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments

from remote.payload.training.base_model import cast_trainable
from remote.payload.training.batches import EpochOrder
from remote.payload.training.collator import LABEL_POSITIONS, SAMPLES
from remote.payload.training.micro_batches import TOKENS_OF_A_PASS, StepCollator, StepSampler, StepSamples
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

    A batch of the data loader is an optimizer step, a list of micro-batches. To Trainer, gradient accumulation is 1, so
    the number of micro-batches may differ between steps, and a checkpoint fits every division of the steps.

    `step_samples` and `step_tokens` are the numbers of samples and tokens in the current optimizer step. `validation`
    is the callback that measures the validation loss, or None without validation.
    """

    def __init__(self, *, plan: PrecisionPlan, order: EpochOrder, memory: MemoryPlan, **kwargs: Any) -> None:
        self.plan = plan
        self.step_samples: List[str] = []
        self.step_tokens = 0
        self.validation: Any = None
        super().__init__(**kwargs)
        self.add_callback(EpochSetter(order))
        self.steps = StepSampler(
            order,
            self.train_dataset,
            memory,
            pass_tokens=TOKENS_OF_A_PASS[self.args.device.type],
            process=self.args.process_index,
            processes=self.args.world_size,
        )

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

    def _load_scaler(self, checkpoint: Any) -> None:
        """Load the loss scale of a checkpoint, unless this job needs none: a cure may have changed the precision.

        transformers 5.23 fails without a scaler.
        """
        if self.accelerator.scaler is not None:
            super()._load_scaler(checkpoint)

    def is_local_process_zero(self) -> bool:
        """Return True for the process that writes to the run's folder on this host."""
        return bool(super().is_local_process_zero()) and (self.is_world_process_zero() or not shares_run_folder())

    def get_train_dataloader(self) -> Any:
        """Return the optimizer steps of this process. Accelerate must not divide them among processes again."""
        return DataLoader(
            StepSamples(self.steps.samples),
            batch_sampler=self.steps,
            collate_fn=StepCollator(self.data_collator),
            pin_memory=self.args.dataloader_pin_memory,
        )

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> Tuple[List[Any], Any]:
        """Return the next optimizer step, and the number of labels in it on all processes."""
        steps: List[List[Dict[str, Any]]] = super().get_batch_samples(epoch_iterator, num_batches, device)[0]
        labels = sum(len(batch[LABEL_POSITIONS]) for step in steps for batch in step)
        if self.args.world_size == 1:
            return steps, labels
        return steps, self.accelerator.gather(torch.tensor(labels, device=device)).sum()

    def training_step(self, model: Any, inputs: List[Dict[str, Any]], num_items_in_batch: Any = None) -> torch.Tensor:
        """Compute the gradients of an optimizer step and return its loss. Processes synchronise after the last part."""
        total = torch.zeros((), device=self.args.device)
        for number, batch in enumerate(inputs, 1):
            for name, tokens in batch.pop(SAMPLES):
                self.step_samples.append(name)
                self.step_tokens += tokens
            part = {name: value.to(self.args.device, non_blocking=True) for name, value in batch.items()}
            with contextlib.nullcontext() if number == len(inputs) else self.accelerator.no_sync(model):
                total += super().training_step(model, part, num_items_in_batch)
        return total

    def floating_point_ops(self, inputs: Dict[str, Any]) -> int:
        """Return 0, because transformers' estimate is for text models."""
        return 0


def training_arguments(spec: TrainingSpec, *, device: str) -> TrainingArguments:
    """Return the spec as TrainingArguments, before the memory is planned.

    To Trainer, an optimizer step is one batch. Trainer's checkpoint rotation and gradient checkpointing are disabled;
    `Publisher` and `checkpoint_layers` do this instead.
    """
    loop, plan = spec.train, spec.precision
    return TrainingArguments(
        output_dir=spec.paths.checkpoints,
        num_train_epochs=loop.epochs,
        max_steps=loop.max_steps or -1,
        per_device_train_batch_size=loop.batch_size * loop.gradient_accumulation,
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
