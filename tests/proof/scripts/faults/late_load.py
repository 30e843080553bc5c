"""Adapter weights are loaded in float16 after the trainable parameters were cast to float32.

expects: trainable-dtype, fp16-unscale
"""

import mini

model = mini.build()
saved = {name: tensor.half() for name, tensor in model.state_dict().items() if "lora" in name}
model.load_state_dict(saved, strict=False, assign=True)
for name, parameter in model.named_parameters():
    parameter.requires_grad_("lora" in name)
mini.train(model)
