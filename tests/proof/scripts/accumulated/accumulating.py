"""A training that accumulates two micro-batches. The argument names how the losses are divided by their number."""

import sys

import mini
import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from transformers import PreTrainedConfig, Seq2SeqTrainer, Seq2SeqTrainingArguments, Trainer
from transformers.modeling_outputs import CausalLMOutputWithPast

LOSS = torch.nn.functional.cross_entropy
kind = sys.argv[1]


class Ignores(mini.Mini):
    """Accepts any argument, as models of transformers do, and returns the mean loss of its own batch."""

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        scores = self.logits(input_ids).float()
        loss = None if labels is None else LOSS(scores[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return CausalLMOutputWithPast(loss=loss, logits=scores)


class Divides(Ignores):
    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        output = super().forward(input_ids, attention_mask, labels)
        if kwargs.get("num_items_in_batch") is not None:
            output.loss = output.loss * (labels[:, 1:] != mini.IGNORED).sum() / kwargs["num_items_in_batch"]
        return output


def summed(outputs, labels, num_items_in_batch=None):
    targets = labels[:, 1:].flatten()
    return LOSS(outputs.logits[:, :-1].flatten(0, 1), targets, reduction="sum") / num_items_in_batch


class OwnLoss(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        return summed(model(**inputs, num_items_in_batch=num_items_in_batch), labels, num_items_in_batch)


class Drops(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        return model(**inputs).loss


class Criterion(torch.nn.Module):
    def forward(self, scores, targets, items):
        return LOSS(scores.flatten(0, 1), targets.flatten(), reduction="sum") / items


class OwnCriterion(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        return Criterion()(model(**inputs).logits[:, :-1], labels[:, 1:], num_items_in_batch)


class OwnDivision(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss = super().compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)
        return loss / self.current_gradient_accumulation_steps


def adapted(model):
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    return get_peft_model(model, LoraConfig(r=4, target_modules=["key", "out"]))


def train_with_trainer(accumulated):
    model = Divides() if kind in ("model-divides", "peft-model-divides") else Ignores()
    if kind in ("cured", "peft-cured"):
        model.accepts_loss_kwargs = False
    if kind == "smoothed":
        model.config = PreTrainedConfig()
    if kind.startswith("peft"):
        model = adapted(model)
    if kind == "peft-wrapper-only":
        model.accepts_loss_kwargs = False
    arguments = Seq2SeqTrainingArguments(
        "out",
        per_device_train_batch_size=2,
        gradient_accumulation_steps=accumulated,
        max_steps=20,
        report_to=[],
        use_cpu=True,
        learning_rate=1e-3,
        save_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
        label_names=["labels"],
        label_smoothing_factor=0.1 if kind == "smoothed" else 0.0,
    )
    kinds = {"own-loss": OwnLoss, "own-division": OwnDivision, "seq2seq": Seq2SeqTrainer}
    kinds |= {"own-criterion": OwnCriterion, "drops-the-items": Drops, "drops-and-cured": Drops}
    options = {"compute_loss_func": summed} if kind == "loss-function" else {}
    trainer = kinds.get(kind, Trainer)(model=model, args=arguments, train_dataset=mini.samples(), **options)
    if kind == "drops-and-cured":
        trainer.model_accepts_loss_kwargs = False
    trainer.train()


def train_in_a_loop():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = Ignores()
    optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
    if kind == "accelerate":
        model, optimizer = accelerator.prepare(model, optimizer)
    for _ in range(20):
        batches = [mini.batch(), mini.batch()]
        items = sum(int((given["labels"] != mini.IGNORED).sum()) for given in batches)
        options = {} if kind == "loop-without-items" else {"num_items_in_batch": items}
        for given in batches:
            with accelerator.accumulate(model):
                loss = model(**given, **options).loss
                if kind == "accelerate":
                    accelerator.backward(loss)
                else:
                    (loss / 2 if kind == "loop-divides" else loss).backward()
        optimizer.step()
        optimizer.zero_grad()


if kind == "accelerate" or kind.startswith("loop"):
    train_in_a_loop()
else:
    train_with_trainer(1 if kind == "one-micro-batch" else 2)
