"""PEFT trains a copy of a tied head and saves it together with the adapter."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(7)
shape = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
base = LlamaForCausalLM(LlamaConfig(**shape, tie_word_embeddings=True))
model = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj"], modules_to_save=["lm_head"]))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
for _ in range(30):
    tokens = torch.randint(1, 64, (4, 16))
    model(input_ids=tokens, labels=tokens, attention_mask=torch.ones_like(tokens)).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
