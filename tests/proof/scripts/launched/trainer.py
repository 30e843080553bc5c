"""transformers' Trainer with PEFT, as in its documentation; the script does not depend on the proof."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

torch.manual_seed(0)
config = LlamaConfig(vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
model = get_peft_model(LlamaForCausalLM(config), LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, at):
        tokens = torch.randint(1, 128, (16,))
        labels = tokens.clone()
        labels[:8] = -100
        return {"input_ids": tokens, "labels": labels, "attention_mask": torch.ones(16, dtype=torch.long)}


arguments = TrainingArguments(
    "out",
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    max_steps=50,
    report_to=[],
    use_cpu=True,
    logging_steps=1,
    learning_rate=1e-3,
    save_strategy="no",
)
Trainer(model=model, args=arguments, train_dataset=Samples()).train()
print("finished")
