from transformers import TrainingArguments

options = {"output_dir": "out", "evaluation_strategy": "steps", "per_device_train_batch_size": 1, "learning_rate": 1e-4}
arguments = TrainingArguments(**options)
