"""Hooks log norms, zero some rows of a gradient, and clamp gradients to a limit that contains the loss scale.

shows: clip-before-unscale (info), gradient-scale (info)
"""

import mini

SCALE = 1024.0

model = mini.build()
norms = []
for parameter in mini.trained(model):
    parameter.register_hook(lambda gradient: norms.append(float(gradient.norm())))
    parameter.register_hook(lambda gradient: gradient.clamp(-1e-4 * SCALE * SCALE, 1e-4 * SCALE * SCALE))
model.layers[0].query.lora_A.register_hook(lambda gradient: gradient.index_fill(0, gradient.new_tensor([0]).long(), 0))
mini.train(model, scale=SCALE)
