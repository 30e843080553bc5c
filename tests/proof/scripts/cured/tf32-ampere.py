from transformers import TrainingArguments


class Arguments(TrainingArguments):
    def __post_init__(self):
        if self.tf32:
            raise ValueError("--tf32 requires Ampere or a newer GPU arch, cuda>=11 and torch>=1.7")


TrainingArguments = Arguments
TrainingArguments("out", tf32=True)
print("trained")
