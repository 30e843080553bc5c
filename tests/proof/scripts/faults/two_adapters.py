"""The adapter of another modality is trained as well.

expects: trainable-set
"""

import mini
import torch
from peft import LoraConfig, get_peft_model

model = get_peft_model(mini.build().half(), LoraConfig(r=4, target_modules=["key"]), adapter_name="speech")
model.add_adapter("vision", LoraConfig(r=8, target_modules=["out"]))
model.base_model.set_adapter(["speech", "vision"])
mini.train(model, optimizer=torch.optim.AdamW(mini.trained(model), lr=1e-3))
