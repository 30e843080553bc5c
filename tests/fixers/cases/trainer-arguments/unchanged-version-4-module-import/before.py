from transformers import Trainer, TrainingArguments
from transformers.deepspeed import HfDeepSpeedConfig

args = TrainingArguments("out", warmup_ratio=0.1)
trainer = Trainer(None, args, tokenizer=None)
