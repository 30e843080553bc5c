"""PEFT casts its adapter on a float16 base model to float32; a plain loop trains it."""

import mini
import torch
from peft import LoraConfig, get_peft_model

base = mini.Mini().half()
model = get_peft_model(base, LoraConfig(r=4, target_modules=["key", "out"]))
mini.train(model, optimizer=torch.optim.AdamW(mini.trained(model), lr=1e-3))
