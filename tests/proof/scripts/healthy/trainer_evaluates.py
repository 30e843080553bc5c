"""transformers' Trainer, which evaluates and saves every few steps."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

torch.manual_seed(7)
shape = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
config = LoraConfig(r=4, target_modules=["q_proj"], lora_dropout=0.1)
model = get_peft_model(LlamaForCausalLM(LlamaConfig(**shape)), config)
tokens = torch.randint(1, 64, (64, 16))
rows = [{"input_ids": row, "labels": row, "attention_mask": torch.ones_like(row)} for row in tokens]
arguments = TrainingArguments(
    "out",
    per_device_train_batch_size=4,
    max_steps=20,
    report_to=[],
    use_cpu=True,
    learning_rate=1e-3,
    eval_strategy="steps",
    eval_steps=4,
    save_steps=4,
    logging_steps=1,
    disable_tqdm=True,
)
Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows[:8]).train()
