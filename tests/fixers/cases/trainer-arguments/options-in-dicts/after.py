import os
from transformers import Trainer, TrainingArguments

os.environ.setdefault("TENSORBOARD_LOGGING_DIR", "logs")
options = {
    "output_dir": "out",
    "eval_strategy": "steps",
    "train_sampling_strategy": "group_by_length",
}
options["warmup_steps"] = 0.1
first = TrainingArguments(**options)
second = TrainingArguments(**{**options, "use_cpu": False}, **dict(hub_token="t"))
report = {"evaluation_strategy": "steps", "logging_dir": "logs"}
