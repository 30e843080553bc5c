"""PEFT over a float16 base: it widens its own weights, and the loop does the rest."""

import mini
import torch
from peft import LoraConfig, get_peft_model

base = mini.Mini().half()
model = get_peft_model(base, LoraConfig(r=4, target_modules=["key", "out"]))
mini.train(model, optimizer=torch.optim.AdamW(mini.trained(model), lr=1e-3))
