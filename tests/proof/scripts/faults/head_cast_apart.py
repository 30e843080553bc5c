"""The head is cast to float32 as a separate parameter, although the config ties it to the embedding.

expects: tied-weights
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(7)
shape = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
model = LlamaForCausalLM(LlamaConfig(**shape, tie_word_embeddings=True)).requires_grad_(False)
model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().float().clone())
optimizer = torch.optim.AdamW([model.lm_head.weight], lr=1e-3)
for _ in range(30):
    tokens = torch.randint(1, 64, (4, 16))
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
