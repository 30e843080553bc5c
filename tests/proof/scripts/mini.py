"""A language model of two layers with hand-written LoRA: the structure of a real model, at milliseconds per step."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(7)  # A script that creates its own weights gets the same ones each time.
VOCABULARY, WIDTH, RANK = 64, 32, 4
PAD, IGNORED = 0, -100


class Lora(nn.Module):
    def __init__(self, size_in, size_out):
        super().__init__()
        self.base = nn.Linear(size_in, size_out)
        self.lora_A = nn.Parameter(torch.randn(RANK, size_in) * 0.05)
        self.lora_B = nn.Parameter(torch.zeros(size_out, RANK))

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.lora_A), self.lora_B)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.value = Lora(WIDTH, WIDTH), Lora(WIDTH, WIDTH)
        self.key, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (part(h).unflatten(-1, (2, 16)).transpose(1, 2) for part in (self.query, self.key, self.value))
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Mini(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.head = nn.Linear(WIDTH, VOCABULARY)
        for name, parameter in self.named_parameters():
            parameter.requires_grad_("lora" in name)

    def run_layer(self, layer, x):
        return layer(x)

    def logits(self, input_ids):
        x = self.embedding(input_ids)
        for layer in self.layers:
            x = self.run_layer(layer, x)
        return self.head(x)

    def forward(self, input_ids, attention_mask=None, labels=None, num_items_in_batch=None):
        scores = self.logits(input_ids)[:, :-1].flatten(0, 1).float()
        targets = labels[:, 1:].flatten()
        if num_items_in_batch is None:
            return F.cross_entropy(scores, targets, ignore_index=IGNORED)
        return F.cross_entropy(scores, targets, ignore_index=IGNORED, reduction="sum") / num_items_in_batch


def build(model=None):
    """Return a correctly prepared model: frozen weights in float16, trained ones in float32."""
    torch.manual_seed(7)
    model = model if model is not None else Mini()
    for parameter in model.parameters():
        if not parameter.requires_grad:
            parameter.data = parameter.data.half()
    return model


def trained(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def batch(rows=3, length=16, prompt=6):
    """Return a batch; labels of prompt and padding are -100, and each row has another amount of padding."""
    tokens = torch.randint(1, VOCABULARY, (rows, length))
    mask = torch.ones(rows, length, dtype=torch.long)
    for row in range(1, rows):
        tokens[row, -row:], mask[row, -row:] = PAD, 0
    labels = tokens.masked_fill(mask == 0, IGNORED)
    labels[:, :prompt] = IGNORED
    return {"input_ids": tokens, "attention_mask": mask, "labels": labels}


def samples(batches=30):
    """Return a data set of single rows."""
    return [{name: value[row] for name, value in batch().items()} for _ in range(batches) for row in range(3)]


def autocast(enabled=True):
    return torch.autocast("cpu", torch.float16, enabled=enabled)


def scaler(scale=1024.0):
    return torch.amp.GradScaler("cpu", init_scale=scale)


def train(model, *, optimizer=None, scale=1024.0, make=batch, steps=30):
    """Train in a correct loop."""
    optimizer = optimizer if optimizer is not None else torch.optim.AdamW(trained(model), lr=1e-3)
    scaling = scaler(scale)
    for _ in range(steps):
        with autocast():
            loss = model(**make())
        scaling.scale(loss).backward()
        scaling.unscale_(optimizer)
        nn.utils.clip_grad_norm_(trained(model), 1.0)
        scaling.step(optimizer)
        scaling.update()
        optimizer.zero_grad()
