"""The KL divergence of hand-made smoothed targets is averaged over all positions, padding included.

A second script for the same check.

expects: loss-ignores (error)
"""

import mini
import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(7)
shape = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
model = LlamaForCausalLM(LlamaConfig(**shape))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(30):
    given = mini.batch(rows=6)
    tokens, mask = given["input_ids"], given["attention_mask"]
    logs = model(input_ids=tokens, attention_mask=mask).logits[:, :-1].log_softmax(-1)
    wanted = F.one_hot(tokens[:, 1:], 64) * mask[:, 1:, None]
    F.kl_div(logs, 0.9 * wanted + 0.1 / 64, reduction="batchmean").backward()
    optimizer.step()
    optimizer.zero_grad()
