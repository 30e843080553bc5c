"""Half of the adapter's parameters are not passed to the optimizer.

expects: optimizer-parameters
"""

import mini
import torch

model = mini.build()
chosen = [parameter for name, parameter in model.named_parameters() if "lora_B" in name]
mini.train(model, optimizer=torch.optim.AdamW(chosen, lr=1e-3))
