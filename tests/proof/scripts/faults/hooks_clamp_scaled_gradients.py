"""Hooks on the parameters clamp gradients to 0.001 while the gradients still contain the loss scale.

expects: clip-before-unscale (error)
"""

import mini

model = mini.build()
for parameter in mini.trained(model):
    parameter.register_hook(lambda gradient: gradient.clamp(-1e-3, 1e-3))
mini.train(model)
