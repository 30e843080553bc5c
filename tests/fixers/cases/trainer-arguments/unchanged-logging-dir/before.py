from transformers import TrainingArguments

first = TrainingArguments("out", logging_dir=chosen())
second = [TrainingArguments("out", logging_dir=each) for each in folders]
if TrainingArguments("out", logging_dir="logs").fp16:
    pass
make = lambda folder: TrainingArguments("out", logging_dir=folder)
x = 1; third = TrainingArguments("out", logging_dir="logs")
