"""A larger embedding for new tokens replaces the one that was tied to the head; the head keeps the old tensor.

A second script for the same check.

expects: tied-weights
"""

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(7)
shape = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
model = LlamaForCausalLM(LlamaConfig(**shape, tie_word_embeddings=True))
trained = nn.Embedding(64, 32)
trained.weight.data.copy_(model.lm_head.weight)
model.set_input_embeddings(trained)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(30):
    tokens = torch.randint(1, 64, (4, 16))
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
