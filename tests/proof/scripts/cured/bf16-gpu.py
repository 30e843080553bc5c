from transformers import TrainingArguments


class Arguments(TrainingArguments):
    def __post_init__(self):
        if self.bf16:
            raise ValueError("Your setup doesn't support bf16/gpu.")


TrainingArguments = Arguments
TrainingArguments("out", bf16=True, use_cpu=False)
print("trained")
