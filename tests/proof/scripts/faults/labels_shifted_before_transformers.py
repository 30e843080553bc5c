"""The labels are shifted by the script, and again by the causal language model of transformers.

A second script for the same check.

expects: labels-aligned (error)
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(7)
shape = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
model = LlamaForCausalLM(LlamaConfig(**shape))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(30):
    tokens = torch.randint(1, 64, (4, 17))
    model(input_ids=tokens[:, :-1], labels=tokens[:, 1:].contiguous()).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
