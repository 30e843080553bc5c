"""A loss is cast to float32 only where the file computes its input in half precision outside autocast."""

import pytest

from fixers.code import loss_fp32
from tests.fixers.code.training_code import STAYS, outcome

MODEL = """class Tagger(nn.Module):
    def forward(self, x, y):
        return F.cross_entropy(self.head(x), y)


"""
CAST = {
    "a half model": "model.half()\nF.mse_loss(model(x), y)",
    "a part of its output": "model = model.to(torch.float16)\nout = model(x)\nF.mse_loss(out.logits[:, 0], y)",
    "loaded in half": 'm = A.from_pretrained("a/b", torch_dtype=torch.float16)\nF.cross_entropy(m(x), y)',
    "loaded in a dtype that is chosen": "dtype = torch.float16 if c else torch.float32\n"
    "m = A.from_pretrained(n, torch_dtype=dtype)\nF.cross_entropy(m(x), y)",
    "sharded with a half policy": "p = MixedPrecision(param_dtype=torch.float16)\nm = FSDP(net, mixed_precision=p)\n"
    "F.mse_loss(m(x), y)",
    "passed to a function": "def loss(a, b):\n    return F.mse_loss(a, b)\n\n\nm.half()\nloss(m(x), y)",
    "passed by its name": "def loss(a, b):\n    return F.mse_loss(a, b)\n\n\nm.half()\nloss(b=y, a=m(x))",
    "returned by a function": "def build():\n    return Net().half()\n\n\nm = build()\nF.mse_loss(m(x), y)",
    "a half attribute": "class T:\n    def __init__(self):\n        self.m = Net().half()\n\n"
    "    def loss(self, x, y):\n        return F.mse_loss(self.m(x), y)",
    "an instance of the class is cast": MODEL + "tagger = Tagger().half()",
    "left the autocast block": "with torch.autocast('cuda', torch.float16):\n    out = m(x)\nF.mse_loss(out, y)",
    "left an autocast block of a variable": "mixed = torch.autocast('cuda', torch.float16) if c else nullcontext()\n"
    "with mixed:\n    a, b = m(x)\nF.mse_loss(b, y)",
    "the dtype of a half tensor": "h = x.half()\nF.mse_loss(y.to(h.dtype), z)",
    "a function that is also called outside autocast": "model.half()\n\n\ndef loss_of(a, b):\n"
    "    return F.mse_loss(a, b)\n\n\nwith autocast():\n    loss_of(model(x), y)\nloss_of(model(x), y)",
    "joined with others": "m.half()\nF.mse_loss(torch.cat([z, m(x)]), y)",
}
KEPT = {
    "only the target is half": "t.half()\nF.mse_loss(x, t(x))",
    "an evaluation": "m.half()\n\n\ndef validate(x, y):\n    return F.mse_loss(m(x), y)",
    "no gradients": "m.half()\nwith torch.no_grad():\n    F.mse_loss(m(x), y)",
    "no gradients in a function": "m.half()\n\n\n@torch.no_grad()\ndef f(x, y):\n    return F.mse_loss(m(x), y)",
    "half features of a model": "f = encode(x).half()\nF.mse_loss(head(f), y)",
    "autocast is off": "with autocast(enabled=False):\n    out = m(x)\nF.mse_loss(out, y)",
    "the dtype of another tensor": "h = torch.float16\nF.mse_loss(x.to(y.dtype), y)",
    "its caller runs it under autocast": MODEL + "scaler = torch.amp.GradScaler('cuda')",
    "half precision is only disabled": MODEL.replace(
        "        return", "        with autocast(enabled=False):\n            return"
    ),
    "a metric": "def perplexity(logits, labels):\n    return F.cross_entropy(logits, labels).exp()\n\n\nfp16 = True",
    "another model is half": "teacher.half()\nF.mse_loss(student(x), y)",
    "another class is half": MODEL + "class Encoder(nn.Module):\n    def __init__(self):\n        self.half()",
    "the name is half elsewhere": "def export(m):\n    m.half()\n\n\n"
    "def loss(m, x, y):\n    return F.mse_loss(m(x), y)",
    "every call of its function is under autocast": "model.half()\n\n\ndef loss_of(out, y):\n"
    "    return F.cross_entropy(model(out), y)\n\n\nwith autocast():\n    loss_of(x, y)",
    "the call is under autocast": "def loss(a, b):\n    return F.mse_loss(a, b)\n\n\n"
    "with torch.autocast('cuda', torch.float16):\n    out = m(x)\n    loss(out, y)",
    "float32 again": "m.half()\nout = m(x).float()\nF.mse_loss(out, y)",
    "float32 in autocast": "with torch.autocast('cuda', torch.float16):\n    out = m(x).float()\nF.mse_loss(out, y)",
    "loaded in float32": 'h = torch.float16\nm = A.from_pretrained("a", torch_dtype=torch.float32)\n'
    "F.mse_loss(m(x), y)",
    "sharded in float32": "h = torch.float16\np = MixedPrecision(param_dtype=torch.float32)\n"
    "m = FSDP(net, mixed_precision=p)\nF.mse_loss(m(x), y)",
    "a dtype is only compared": "if x.dtype == torch.float16:\n    print(x)\nF.mse_loss(m(x), y)",
    "calls itself": "def loss(a, b):\n    return loss(a, b) + F.mse_loss(a, b)\n\n\nm = torch.float16",
}


@pytest.mark.parametrize("code", CAST.values(), ids=CAST.keys())
def test_a_loss_of_half_values_is_cast(code):
    after, _ = outcome(loss_fp32, code + "\n")
    assert ".float()" in after
    assert after.replace(".float()", "") == code + "\n"


@pytest.mark.parametrize("code", KEPT.values(), ids=KEPT.keys())
def test_a_loss_of_float32_values_is_unchanged(code):
    before = code + "\n"
    after, findings = outcome(loss_fp32, before)
    assert (STAYS if after == before else after, findings) == (STAYS, [])


def test_a_long_chain_of_values_is_searched_in_linear_time():
    """A search of every path would take 40 to the power of 12 steps, and never end."""
    steps = "".join("    x = layer(x) + x\n    y = x * y + x\n" for _ in range(40))
    code = f"def forward(x, y, layer):\n{steps}    return F.mse_loss(x, y)\n\nhalf = torch.float16\n"
    assert outcome(loss_fp32, code) == (code, [])
