from transformers import Trainer, TrainingArguments

options = {
    "output_dir": "out",
    "evaluation_strategy": "steps",
    "overwrite_output_dir": True,  # removed
    "logging_dir": "logs",
    "group_by_length": True,
}
options["warmup_ratio"] = 0.1
first = TrainingArguments(**options)
second = TrainingArguments(**{**options, "no_cuda": False}, **dict(save_safetensors=True, push_to_hub_token="t"))
report = {"evaluation_strategy": "steps", "logging_dir": "logs"}
