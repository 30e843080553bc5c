"""Trained weights cast to float32, one form of training code per row."""

import pytest

from fixers.code import trainable_fp32
from tests.fixers.code.training_code import STAYS, outcome


def cast(owner, indent="", each="parameter"):
    lines = (
        f"for {each} in {owner}.parameters():  # a loss scaler refuses float16 gradients",
        f"    if {each}.requires_grad:",
        f"        {each}.data = {each}.data.float()",
    )
    return "".join(f"{indent}{line}\n" for line in lines)


def cast_whole(owner, indent=""):
    lines = (
        f"for parameter in {owner}.parameters():  # FSDP flattens parameters of one dtype",
        "    parameter.data = parameter.data.float()",
    )
    return "".join(f"{indent}{line}\n" for line in lines)


MADE = "o = AdamW(m.parameters())\n"
BEFORE_MADE = cast("m") + MADE
OLD = {"peft": "0.11.1", "trl": "0.26.0"}
"""Versions in which PEFT does not cast adapters, and TRL loads models in the dtype of the checkpoint."""
OWN = "def fix(m):\n    for p in m.parameters():\n        if p.requires_grad:\n            p.data = p.data.float()\n"
COUNT = "def fix(m):\n    for p in m.parameters():\n        if p.requires_grad:\n            s = p.data.float().sum()\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (MADE, BEFORE_MADE),
        ("o = SGD(params=m.parameters())\n", cast("m") + "o = SGD(params=m.parameters())\n"),
        ("o = AdamW([{'params': m.parameters()}])\n", cast("m") + "o = AdamW([{'params': m.parameters()}])\n"),
        (
            "o = AdamW(p for _, p in m.named_parameters())\n",
            cast("m") + "o = AdamW(p for _, p in m.named_parameters())\n",
        ),
        ("ps = list(m.parameters())\no = AdamW(ps)\n", "ps = list(m.parameters())\n" + cast("m") + "o = AdamW(ps)\n"),
        (
            "ps = m.parameters()\no = AdamW(ps)\nps = n.parameters()\n",
            "ps = m.parameters()\n" + cast("m") + "o = AdamW(ps)\nps = n.parameters()\n",
        ),
        ("self.o = AdamW(self.m.parameters())\n", cast("self.m") + "self.o = AdamW(self.m.parameters())\n"),
        (
            "o = AdamW(a.parameters())\nq = SGD(b.parameters())\n",
            cast("a") + "o = AdamW(a.parameters())\n" + cast("b") + "q = SGD(b.parameters())\n",
        ),
        (
            "o = AdamW(m.parameters())\nq = SGD(m.parameters())\n",
            cast("m") + "o = AdamW(m.parameters())\nq = SGD(m.parameters())\n",
        ),
        ("AdamW()\n", STAYS),
        ("from keras.optimizers import Adam\nAdam(m.parameters())\n", STAYS),
        ("for p in m.parameters():\n    p.data = p.data.float()\n" + MADE, STAYS),
        ("for p in m.parameters():\n    p.data = p.data.to(torch.float32)\n" + MADE, STAYS),
        ("for p in m.parameters():\n    p.data = p.data.to(dtype=torch.float)\n" + MADE, STAYS),
        (
            "for p in m.parameters():\n    p.float(1)\n" + MADE,
            "for p in m.parameters():\n    p.float(1)\n" + BEFORE_MADE,
        ),
        (
            "for p in m.parameters():\n    p.to('cuda')\n" + MADE,
            "for p in m.parameters():\n    p.to('cuda')\n" + BEFORE_MADE,
        ),
        (
            "for p in n.parameters():\n    p.data = p.data.float()\n" + MADE,
            "for p in n.parameters():\n    p.data = p.data.float()\n" + BEFORE_MADE,
        ),
        ("cast_training_params(m)\n" + MADE, STAYS),
        ("cast_training_params([m], dtype=torch.float32)\n" + MADE, STAYS),
        ("cast_training_params(n)\n" + MADE, "cast_training_params(n)\n" + BEFORE_MADE),
        (
            "for p in m.parameters():\n    print(p.float().norm())\n" + MADE,
            "for p in m.parameters():\n    print(p.float().norm())\n" + BEFORE_MADE,
        ),
        (
            "for p in m.parameters():\n    p.float()\n" + MADE,
            "for p in m.parameters():\n    p.float()\n" + BEFORE_MADE,
        ),
        (
            "for p in m.parameters():\n    p.grad = p.grad.float()\n" + MADE,
            "for p in m.parameters():\n    p.grad = p.grad.float()\n" + BEFORE_MADE,
        ),
        ("for x in m.modules():\n    x.to(torch.float32)\n" + MADE, STAYS),
        (COUNT + "fix(m)\n" + MADE, COUNT + "fix(m)\n" + BEFORE_MADE),
        (OWN + "fix(m)\n" + MADE, STAYS),
        (OWN + "fix(n)\n" + MADE, OWN + "fix(n)\n" + BEFORE_MADE),
        ("cast_training_params(m)\nm.half()\n" + MADE, "cast_training_params(m)\nm.half()\n" + BEFORE_MADE),
        (
            "cast_training_params(m)\nm.to(torch.float16)\n" + MADE,
            "cast_training_params(m)\nm.to(torch.float16)\n" + BEFORE_MADE,
        ),
        (
            "cast_training_params(m)\nm.to(dtype=dtype)\n" + MADE,
            "cast_training_params(m)\nm.to(dtype=dtype)\n" + BEFORE_MADE,
        ),
        ("cast_training_params(m)\nm.to('cuda')\n" + MADE, STAYS),
        (
            "cast_training_params(m)\nm.load_adapter('a')\n" + MADE,
            "cast_training_params(m)\nm.load_adapter('a')\n" + BEFORE_MADE,
        ),
        (
            "cast_training_params(m)\nm = get_peft_model(b)\n" + MADE,
            "cast_training_params(m)\nm = get_peft_model(b)\n" + BEFORE_MADE,
        ),
        ("cast_training_params(m)\nn.half()\n" + MADE, STAYS),
        ("cast_training_params(m)\nif x:\n    " + MADE, STAYS),
        ("m = FSDP(m)\n" + MADE, cast_whole("m") + "m = FSDP(m)\n" + MADE),
        (
            "m = FSDP(m, fsdp_auto_wrap_policy(m))\n" + MADE,
            cast("m") + "m = FSDP(m, fsdp_auto_wrap_policy(m))\n" + MADE,
        ),
        ("b(load_in_4bit=x)\nm = FSDP(m)\n" + MADE, "b(load_in_4bit=x)\n" + cast("m") + "m = FSDP(m)\n" + MADE),
        (
            "m = n\nif d:\n    m = FSDP(m)\n" + MADE,
            "m = n\n" + cast("m") + "if d:\n" + cast_whole("m", "    ") + "    m = FSDP(m)\n" + MADE,
        ),
        ("m.float()\nm = FSDP(m)\n" + MADE, STAYS),
        ("m = m.to(torch.float32)\n" + MADE, STAYS),
        ("w = DDP(m)\no = AdamW(w.parameters())\n", cast("m") + "w = DDP(m)\no = AdamW(w.parameters())\n"),
        ("fully_shard(m)\n" + MADE, cast("m") + "fully_shard(m)\n" + MADE),
        ("w = other(m)\no = AdamW(w.parameters())\n", "w = other(m)\n" + cast("w") + "o = AdamW(w.parameters())\n"),
        ("def f(m):\n    " + MADE, STAYS),
        (
            "def f(m):\n    " + MADE + "\n\nf(load().half())\n",
            "def f(m):\n" + cast("m", "    ") + "    " + MADE + "\n\nf(load().half())\n",
        ),
        ("parameter = 1\n" + MADE, "parameter = 1\n" + cast("m", each="trainable_parameter") + MADE),
        (MADE + "m.half()\n", BEFORE_MADE + "m.half()\n" + cast("m")),
        (MADE + "m.to('cuda')\n", BEFORE_MADE + "m.to('cuda')\n"),
        ("Sophia(m.parameters(), lr=1)\n", cast("m") + "Sophia(m.parameters(), lr=1)\n"),
        ("ps = [*m.parameters()]\nSophia(ps, lr=1)\n", "ps = [*m.parameters()]\n" + cast("m") + "Sophia(ps, lr=1)\n"),
        (
            "getattr(torch.optim, n)(m.parameters(), lr=1)\n",
            cast("m") + "getattr(torch.optim, n)(m.parameters(), lr=1)\n",
        ),
        ("optimizer_cls(m.parameters(), **k)\n", cast("m") + "optimizer_cls(m.parameters(), **k)\n"),
        (
            "from lion_pytorch import Lion\nLion(m.parameters())\n",
            "from lion_pytorch import Lion\n" + cast("m") + "Lion(m.parameters())\n",
        ),
        ("Sophia(m.parameters())\n", STAYS),
        ("Sophia(x, lr=1)\n", STAYS),
        (MADE + "warm_up(o, lr=1)\n", BEFORE_MADE + "warm_up(o, lr=1)\n"),
        (
            MADE + "u = a.unwrap_model(m)\nu.half()\nl.backward()\n",
            BEFORE_MADE + "u = a.unwrap_model(m)\nu.half()\n" + cast("m") + "l.backward()\n",
        ),
        (
            MADE + "m.module.to(torch.float16)\nt.train()\n",
            BEFORE_MADE + "m.module.to(torch.float16)\n" + cast("m") + "t.train()\n",
        ),
        (MADE + "l.backward()\nm.module.half()\nsave(m)\n", BEFORE_MADE + "l.backward()\nm.module.half()\nsave(m)\n"),
        (
            MADE + "u = a.unwrap_model(n)\nu.half()\nl.backward()\n",
            BEFORE_MADE + "u = a.unwrap_model(n)\nu.half()\nl.backward()\n",
        ),
        ("t = Trainer(model=m)\n", cast("m") + "t = Trainer(model=m)\n"),
        ("t = Trainer(m, args)\n", cast("m") + "t = Trainer(m, args)\n"),
        ("t = SFTTrainer(model='a/b')\n", "t = SFTTrainer(model='a/b')\n" + cast("t.model")),
        ("t = SFTTrainer(model=m, peft_config=c)\n", "t = SFTTrainer(model=m, peft_config=c)\n" + cast("t.model")),
        ("t = SFTTrainer(model=model_name)\n", "t = SFTTrainer(model=model_name)\n" + cast("t.model")),
        ("m = 'a/b'\nt = SFTTrainer(model=m)\n", "m = 'a/b'\nt = SFTTrainer(model=m)\n" + cast("t.model")),
        ("t = SFTTrainer(model='a/b')\ncast_training_params(t.model)\n", STAYS),
        ("import lightning\nt = lightning.Trainer(model=m)\n", STAYS),
        ("class T(Trainer): pass\nt = T(model=m)\n", STAYS),
        (
            "class MyTrainer(Trainer): pass\nt = MyTrainer(model=m)\n",
            "class MyTrainer(Trainer): pass\n" + cast("m") + "t = MyTrainer(model=m)\n",
        ),
        ("class MyTrainer: pass\nt = MyTrainer(model=m)\n", STAYS),
        ("deepspeed.initialize()\n" + MADE, STAYS),
    ],
)
def test_what_is_trained_is_float32_before_an_optimizer_takes_it(before, after):
    half = "x = torch.float16\n"
    wanted, findings = outcome(trainable_fp32, half + before, OLD)
    assert (wanted.removeprefix(half), findings) == (before if after is STAYS else after, [])


UNNAMED = "the model of this optimizer or trainer is not assigned to a name; its trainable parameters must be float32"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("x.half()\no = AdamW(ps)\n", 2),
        ("x.half()\nwith f(AdamW(m.parameters())):\n    pass\n", 2),
        ("x.half()\nSFTTrainer(model='a/b').train()\n", 2),
        ("x.half()\na = b = SFTTrainer(model='a/b')\n", 2),
        ("x.half()\na[0] = SFTTrainer(model='a/b')\n", 2),
        ("x.half()\nt = Trainer(model_init=f)\n", 2),
    ],
)
def test_a_model_without_a_name_is_reported_with_its_line(code, line):
    assert outcome(trainable_fp32, code, OLD) == (code, [(line, UNNAMED)])
