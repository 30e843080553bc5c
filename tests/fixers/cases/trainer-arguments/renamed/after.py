from transformers import Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer

args = TrainingArguments(
    "out",
    eval_strategy="steps",
    warmup_steps=0.1,  # a tenth
    train_sampling_strategy="group_by_length",
    use_cpu=False,
)
one = TrainingArguments("out", seed=1)
config = SFTConfig(max_length=512)
trainer = Trainer(model=model, args=args, processing_class=processor)
other = SFTTrainer(model=model, args=config, processing_class=tokenizer)
trainer.train(resume_from_checkpoint="checkpoint-1")
