"""One adapter is trained while another one is active; only the head gets gradients.

expects: adapter-gradient
"""

import mini
import torch
from peft import LoraConfig, get_peft_model

model = get_peft_model(mini.build().half(), LoraConfig(r=4, target_modules=["key"]), adapter_name="mine")
model.add_adapter("other", LoraConfig(r=4, target_modules=["key"]))
model.set_adapter("other")
for name, parameter in model.named_parameters():
    parameter.requires_grad_(".mine." in name)
head = model.base_model.model.head
head.float().requires_grad_(True)
mini.train(model, optimizer=torch.optim.AdamW(mini.trained(model), lr=1e-3))
