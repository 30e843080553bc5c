from transformers import Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer

args = TrainingArguments(
    "out",
    evaluation_strategy="steps",
    warmup_ratio=0.1,  # a tenth
    group_by_length=True,
    overwrite_output_dir=True,  # gone
    no_cuda=False,
    save_safetensors=True,
)
one = TrainingArguments("out", overwrite_output_dir=True, fp16_backend="auto", seed=1)
config = SFTConfig(max_seq_length=512)
trainer = Trainer(model=model, args=args, tokenizer=processor)
other = SFTTrainer(model=model, args=config, tokenizer=tokenizer)
trainer.train(model_path="checkpoint-1")
