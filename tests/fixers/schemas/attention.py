"""Small programs that choose an attention. Each prints its result, and fails if its choice cannot run."""

from __future__ import annotations

TRANSFORMERS = '''"""A stand-in for transformers: SDPA and eager attention reject a padding mask of two dimensions."""


class LlamaConfig:
    def __init__(self, attn_implementation="sdpa"):
        self._attn_implementation = attn_implementation


class LlamaDecoderLayer:
    def __init__(self, config, index=0):
        self.config = config

    def __call__(self, x, attention_mask=None):
        if self.config._attn_implementation != "flash_attention_2" and attention_mask is not None:
            assert attention_mask.dim() == 4, "Expected size for first two dimensions of batch2 tensor"
        return (x,)


def prepare_4d_mask(mask):
    return Mask(4)


class Mask:
    def __init__(self, dimensions):
        self.dimensions = dimensions

    def dim(self):
        return self.dimensions
'''
LAYERS = """import copy

from transformers import LlamaConfig, LlamaDecoderLayer, Mask


class Head:
    def __init__(self, config):
        own = copy.deepcopy(config)
        {choice}
        self.layers = [LlamaDecoderLayer(own, index) for index in range(2)]

    def forward(self, x, attention_mask):
        for layer in self.layers:
            x = layer(x, attention_mask=attention_mask)[0]
        return x
"""
CHOICE = 'own._attn_implementation = "flash_attention_2"'
OWN_LAYER = """from transformers import LlamaConfig, LlamaDecoderLayer, Mask


class Layer(LlamaDecoderLayer):
    pass


class Head:
    def __init__(self, config):
        config._attn_implementation = "flash_attention_2"
        self.layer = Layer(config)

    def forward(self, x, attention_mask):
        return self.layer(x, attention_mask=attention_mask)[0]
"""
USE = """

print(Head(LlamaConfig()).forward("done", Mask(2)))
"""
USE_CONFIG = """import yaml
from head import Head
from transformers import LlamaConfig, Mask

with open("conf.yaml") as file:
    config = LlamaConfig(**yaml.safe_load(file))
print(Head(config).forward("done", Mask(2)))
"""
EXPANDED = LAYERS.format(choice=CHOICE).replace("LlamaDecoderLayer, Mask", "LlamaDecoderLayer, Mask, prepare_4d_mask")
EXPANDED = EXPANDED.replace(
    "        for layer", "        attention_mask = prepare_4d_mask(attention_mask)\n        for layer"
)
CONFIG = "attn_implementation: flash_attention_2\n"

BRANCH = """class Attention:
    def __init__(self, flash_attention=True):
        self.fused = flash_attention

    def forward(self, x):
        if self.fused:
            q, k = x * 2, x + 1
            out = q + k
        else:
{other}
        return out


print("done" if Attention().forward(3) else "")
"""
UNASSIGNED = BRANCH.format(other="            q = q * 0.5\n            out = q + k")
RAISES = BRANCH.format(other='            raise NotImplementedError("only FlashAttention")')
BOTH = BRANCH.format(other="            q, k = x * 2, x + 1\n            out = q + k")
RETURNS = """def attend(x, use_flash_attn=True):
    if use_flash_attn:
        return x + 1
    raise ValueError("flash_attn is needed")


print("done" if attend(3) else "")
"""
LATER = """def attend(x, use_flash_attn=True):
    if not use_flash_attn:
        out = x + 1
    else:
        packed = x * 2
        out = packed + 1
    return out + packed


print("done" if attend(3) else "")
"""
LATER_TOO = LATER.replace(
    "    return out + packed\n", "    if use_flash_attn:\n        return out + packed\n    return out\n"
)
TABLED = """import yaml
from attend import attend

with open("conf.yaml") as file:
    print("done" if attend(3, **yaml.safe_load(file)) else "")
"""
FUNCTION = RETURNS.partition("\n\n\nprint")[0].replace("=True", "") + "\n"

STAYS = {
    "layers with an implementation of their own": {"train.py": LAYERS.format(choice=CHOICE) + USE},
    "a layer of a derived class": {"train.py": OWN_LAYER + USE},
    "layers with the implementation of the model": {
        "head.py": LAYERS.format(choice="own.depth = 2"),
        "train.py": USE_CONFIG,
        "conf.yaml": CONFIG,
    },
    "variables of the other branch": {"train.py": UNASSIGNED},
    "another branch that raises": {"train.py": RAISES},
    "an early return": {"train.py": RETURNS},
    "a variable that is used after both branches": {"train.py": LATER},
    "a switch in a config": {"attend.py": FUNCTION, "train.py": TABLED, "conf.yaml": "use_flash_attn: true\n"},
}
"""Projects that run only with FlashAttention, by the code that shows it."""

REPLACED = {
    "layers whose mask is expanded": {"train.py": EXPANDED + USE},
    "a complete other branch": {"train.py": BOTH},
    "a variable that is used with FlashAttention only": {"train.py": LATER_TOO},
    "a config beside layers with an implementation of their own": {
        "head.py": LAYERS.format(choice=CHOICE.replace("flash_attention_2", "eager")).replace(
            ", attention_mask=atten", ", atten"
        ),
        "train.py": USE_CONFIG.replace("Mask(2)", "None"),
        "conf.yaml": CONFIG,
    },
}
"""Projects that run without FlashAttention too."""
