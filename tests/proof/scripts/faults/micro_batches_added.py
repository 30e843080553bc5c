"""The model accepts num_items_in_batch and ignores it, so Trainer adds the losses of two micro-batches.

expects: loss-accumulation (warning)
"""

import mini
from transformers import Trainer, TrainingArguments


class Ignores(mini.Mini):
    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        return {"loss": super().forward(input_ids, attention_mask, labels)}


arguments = TrainingArguments(
    "out",
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    max_steps=20,
    report_to=[],
    use_cpu=True,
    learning_rate=1e-3,
    save_strategy="no",
    disable_tqdm=True,
)
Trainer(model=Ignores(), args=arguments, train_dataset=mini.samples()).train()
