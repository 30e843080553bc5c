"""On resume, float16 adapter weights replace the float32 ones.

expects: trainable-dtype, fp16-unscale
"""

import mini

model = mini.build()
checkpoint = {name: tensor.half() for name, tensor in model.state_dict().items()}
for name, parameter in model.named_parameters():
    parameter.data = checkpoint[name]
mini.train(model)
