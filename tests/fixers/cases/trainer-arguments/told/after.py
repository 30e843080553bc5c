import os
from transformers import AutoModelForCausalLM, TrainingArguments

os.environ.setdefault("TENSORBOARD_LOGGING_DIR", "runs")
args = TrainingArguments("out", group_by_length=flag)
args = TrainingArguments("out", warmup_ratio=0.1, warmup_steps=5)
model = AutoModelForCausalLM.from_pretrained("m", load_in_4bit=True)
args = TrainingArguments()
