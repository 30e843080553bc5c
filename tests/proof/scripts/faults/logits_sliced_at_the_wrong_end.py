"""The first logits and the last tokens are sliced off, so each position is trained to predict the previous token.

A second script for the same check.

expects: labels-aligned
"""

import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(7)
shape = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
model = LlamaForCausalLM(LlamaConfig(**shape))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(30):
    tokens = torch.randint(1, 64, (4, 16))
    logits = model(tokens).logits
    F.cross_entropy(logits[:, 1:].reshape(-1, 64), tokens[:, :-1].reshape(-1)).backward()
    optimizer.step()
    optimizer.zero_grad()
