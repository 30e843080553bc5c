"""Autocast is disabled for one sensitive layer, which is computed in float32."""

import mini


class Island(mini.Mini):
    def run_layer(self, layer, x):
        if layer is not self.layers[0]:
            return layer(x)
        with mini.autocast(enabled=False):
            return layer(x.float()).half()


model = mini.build(Island())
model.layers[0].float()
mini.train(model)
