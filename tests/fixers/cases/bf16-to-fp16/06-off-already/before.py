from transformers import TrainingArguments

a = TrainingArguments("o", bf16=False)
b = TrainingArguments("o", bf16=None, fp16=True)
