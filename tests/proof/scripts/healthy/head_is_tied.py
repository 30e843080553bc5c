"""Embedding and head are one tensor, as transformers ties them; the schedule ends with the run.

shows: weights-between (info), learning-rate (info)
runs: 100
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, get_cosine_schedule_with_warmup

torch.manual_seed(7)
shape = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
model = LlamaForCausalLM(LlamaConfig(**shape, tie_word_embeddings=True))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = get_cosine_schedule_with_warmup(optimizer, 5, 100)
for _ in range(30):
    tokens = torch.randint(1, 64, (4, 16))
    model(input_ids=tokens, labels=tokens, attention_mask=torch.ones_like(tokens)).loss.backward()
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
