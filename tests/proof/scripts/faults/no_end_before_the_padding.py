"""No answer ends with an end-of-text token; the same id follows only as padding, which is masked.

A second script for the same check.

expects: labels-end
"""

import mini
import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(7)
shape = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
model = LlamaForCausalLM(LlamaConfig(**shape, eos_token_id=mini.PAD, pad_token_id=mini.PAD))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(30):
    model(**mini.batch(rows=8)).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
