"""PEFT trains a full copy of the head (modules_to_save) in the half precision of the base model.

expects: trainable-dtype, fp16-unscale
"""

import mini
import torch
from peft import LoraConfig, get_peft_model

model = mini.Mini().half()
model = get_peft_model(model, LoraConfig(r=4, target_modules=["key", "out"], modules_to_save=["head"]))
for parameter in model.base_model.model.head.modules_to_save.parameters():
    parameter.data = parameter.data.half()
mini.train(model, optimizer=torch.optim.AdamW(mini.trained(model), lr=1e-3))
