"""A float16 loop without a loss scaler: a plain loop gets one, any other is reported."""

import pytest

from fixers.code import scaler_gate
from fixers.code.bf16_to_fp16 import requires
from tests.fixers.code.training_code import STAYS, outcome

TOLD = "backward under float16 autocast without a loss scaler: small gradients become zero"
HALF = "with torch.autocast('cuda', dtype=torch.float16):\n    l = m(x)\n"
MADE = "o = AdamW(m.parameters())\n"
LOOP = "l.backward()\no.step()\n"
GATED = "torch.amp.GradScaler('cuda', enabled=a == torch.float16)"
SCALED = "scaler.scale(l).backward()\nscaler.step(o)\nscaler.update()\n"


def made(call="torch.amp.GradScaler('cuda')"):
    return f"{MADE}scaler = {call}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (MADE + HALF + LOOP, made() + HALF + SCALED),
        (MADE + LOOP + HALF, made() + SCALED + HALF),
        (
            "def f():\n    l.backward()\n    o.step()\n" + MADE + HALF,
            "def f():\n    scaler.scale(l).backward()\n    scaler.step(o)\n    scaler.update()\n" + made() + HALF,
        ),
        (
            "a = torch.half\n" + MADE + "torch.autocast('cuda', a)\n" + LOOP,
            "a = torch.half\n" + made(GATED) + "torch.autocast('cuda', a)\n" + SCALED,
        ),
        (
            "a = torch.float16 if x else torch.half\n" + MADE + "torch.autocast('cuda', a)\n" + LOOP,
            "a = torch.float16 if x else torch.half\n" + made(GATED) + "torch.autocast('cuda', a)\n" + SCALED,
        ),
        (
            "a = f(x)\n" + MADE + "torch.autocast('cuda', a)\n" + LOOP,
            "a = f(x)\n" + made(GATED) + "torch.autocast('cuda', a)\n" + SCALED,
        ),
        (
            "u = f(x)\n" + MADE + "torch.autocast('cuda', dtype=torch.half, enabled=u)\n" + LOOP,
            "u = f(x)\n"
            + made("torch.amp.GradScaler('cuda', enabled=u)")
            + "torch.autocast('cuda', dtype=torch.half, enabled=u)\n"
            + SCALED,
        ),
        (MADE + "torch.autocast('cuda')\n" + LOOP, made() + "torch.autocast('cuda')\n" + SCALED),
        (MADE + "autocast()\n" + LOOP, made("torch.cuda.amp.GradScaler()") + "autocast()\n" + SCALED),
        (
            MADE + HALF + "torch.autocast('cuda', enabled=False)\n" + LOOP,
            made() + HALF + "torch.autocast('cuda', enabled=False)\n" + SCALED,
        ),
        (MADE + "torch.autocast('cpu')\n" + LOOP, STAYS),
        (MADE + "torch.autocast('cuda', dtype=torch.bfloat16)\n" + LOOP, STAYS),
        (MADE + "torch.autocast('cuda', enabled=False)\n" + LOOP, STAYS),
        (MADE + HALF + "o.step()\n", STAYS),
        (MADE + HALF + "engine.backward(l)\no.step()\n", STAYS),
        (MADE + HALF + "s.scale(l).backward()\no.step()\n", STAYS),
        ("Accelerator()\n" + MADE + HALF + LOOP, STAYS),
        ("Trainer()\n" + MADE + HALF + LOOP, STAYS),
        ("class T(pl.LightningModule): pass\n" + MADE + HALF + LOOP, STAYS),
        ("import deepspeed\n" + MADE + HALF + LOOP, STAYS),
        (
            "class MyTrainer: pass\nMyTrainer()\n" + MADE + HALF + LOOP,
            "class MyTrainer: pass\nMyTrainer()\n" + made() + HALF + SCALED,
        ),
    ],
)
def test_a_plain_loop_gets_a_scaler(before, after):
    assert outcome(scaler_gate, f"{before}scaled = 1\n") == (f"{before if after is STAYS else after}scaled = 1\n", [])


@pytest.mark.parametrize(
    ("loop", "after"),
    [
        ("l.backward(); o.step()\n", "scaler.scale(l).backward(); scaler.step(o); scaler.update()\n"),
        (
            "l.backward(); n = clip_grad_norm_(p); o.step(); o.zero_grad()\n",
            "scaler.scale(l).backward(); scaler.unscale_(o); n = clip_grad_norm_(p); "
            "scaler.step(o); scaler.update(); o.zero_grad()\n",
        ),
        (
            "l.backward()\nif i % 2: o.step(); print(i)\n",
            "scaler.scale(l).backward()\nif i % 2: scaler.step(o); scaler.update(); print(i)\n",
        ),
    ],
)
def test_statements_that_share_a_line_stay_on_it(loop, after):
    assert outcome(scaler_gate, MADE + HALF + loop) == (made() + HALF + after, [])


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("def f(m=m, o=o):\n", "f()\n"),
        ("def f(*, m, o=o):\n", "f(m=n)\n"),
        ("def f(o=o):\n", "if x:\n    f(o)\n"),
        ("def f(b, o):\n", "f(b, o)\nf(b, o=o)\n"),
        ("@torch.enable_grad()\ndef f(o):\n", "def g(o=o):\n    f(o)\ng()\n"),
        ("def f(o, n):\n    f(o, n - 1)\n", "f(o, 2)\n"),
    ],
)
def test_the_optimizer_may_be_an_argument_of_the_function_with_the_loop(opening, closing):
    def written(made, loop):
        return made + HALF + opening + "".join(f"    {line}\n" for line in loop.splitlines()) + closing

    assert outcome(scaler_gate, written(MADE, LOOP)) == (written(made(), SCALED), [])


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("def f(o=None):\n", "f()\n"),
        ("def f(o=o):\n", "f(q)\n"),
        ("def f(o):\n", "f(*b)\n"),
        ("def f(o):\n", "map(f, b)\n"),
        ("def f(o, x=1):\n", "f(o)\nf(x=o, o=q)\n"),
        ("@main\ndef f(o=o):\n", "f()\n"),
        ("class T:\n  def f(self, o=o):\n", "T().f()\n"),
        ("def f(q, o=o):\n    o, _ = q\n", "f(q)\n"),
    ],
)
def test_a_function_that_may_receive_another_optimizer_is_reported_and_left(opening, closing):
    code = MADE + HALF + opening + "".join(f"    {line}\n" for line in LOOP.splitlines()) + closing
    assert outcome(scaler_gate, code) == (code, [(2, TOLD)])


def test_a_function_that_another_file_may_import_does_not_use_a_scaler_of_the_main_block():
    indented = "".join(f"    {line}\n" for line in (MADE + "f(o)\n").splitlines())
    code = HALF + "def f(o):\n    l.backward()\n    o.step()\nif __name__ == '__main__':\n" + indented
    assert outcome(scaler_gate, code) == (code, [(1, TOLD)])


S = "s = torch.optim.lr_scheduler.StepLR(o, 10)\n"
STEPPED = "scaler.scale(l).backward()\nscaler.step(o)\nscale_before = scaler.get_scale()\nscaler.update()\n"
GUARDED = STEPPED + "if scaler.get_scale() >= scale_before:\n    s.step()\n"


@pytest.mark.parametrize(
    ("schedule", "loop", "after"),
    [
        (S, LOOP + "s.step()\n", GUARDED),
        (S, LOOP + "o.zero_grad()\nprint(l)\ns.step()\n", GUARDED.replace("if ", "o.zero_grad()\nprint(l)\nif ")),
        (S, LOOP + "s.step()", GUARDED.removesuffix("\n")),
        (S, LOOP + "if s:\n\ts.step()\n", STEPPED + "if s:\n\tif scaler.get_scale() >= scale_before:\n\t\ts.step()\n"),
        (S, LOOP + "if s: s.step()\n", STEPPED + "if s: scaler.get_scale() >= scale_before and s.step()\n"),
        (
            S,
            LOOP + "s.step(); o.zero_grad()\n",
            STEPPED + "scaler.get_scale() >= scale_before and s.step(); o.zero_grad()\n",
        ),
        ("s = None\n" + S, LOOP + "s.step()\n", GUARDED),
        ("s = make_lr_schedule(o, 10)\n", LOOP + "s.step()\n", GUARDED),
        ("s = make_lr_schedule(m, 10)\n", LOOP + "s.step()\n", SCALED + "s.step()\n"),
        ("s = make_lr_schedule(o, 10)\n", LOOP + "s.step(i)\n", SCALED + "s.step(i)\n"),
        ("s = torch.optim.lr_scheduler.ReduceLROnPlateau(o)\n", LOOP + "s.step(l)\n", SCALED + "s.step(l)\n"),
        (S, LOOP + "if s:\n    s.step()\n    log(s)\n", SCALED + "if s:\n    s.step()\n    log(s)\n"),
        (S, LOOP + "if s:\n    s.step()\nelse:\n    log(s)\n", SCALED + "if s:\n    s.step()\nelse:\n    log(s)\n"),
        (S, "s.step()\n" + LOOP, "s.step()\n" + SCALED),
        (S, LOOP + "for _ in e:\n    s.step()\n", SCALED + "for _ in e:\n    s.step()\n"),
        (S, "for b in c:\n    l.backward()\n    o.step()\ns.step()\n", None),
    ],
)
def test_a_schedule_that_follows_each_step_does_not_advance_for_a_skipped_step(schedule, loop, after):
    planned, findings = outcome(scaler_gate, MADE + schedule + HALF + loop)
    assert findings == []
    if after is None:
        assert "scale_before" not in planned
    else:
        assert planned == made() + schedule + HALF + after


def test_the_remembered_scale_gets_a_name_that_the_file_does_not_contain():
    after, _ = outcome(scaler_gate, MADE + S + HALF + LOOP + "s.step()\nscale_before, scale_before_2 = 1, 2\n")
    assert GUARDED.replace("scale_before", "scale_before_3") in after


@pytest.mark.parametrize(
    "loop",
    [
        "l.backward()\no.step(closure)\n",
        "x = l.backward()\no.step()\n",
        "l.backward()\nprint(p.grad)\no.step()\n",
        "l.backward()\np.register_hook(f)\no.step()\n",
        "clip_grad_norm_(m.parameters())\nl.backward()\no.step()\n",
        "l.backward()\nif x:\n    o.step()\nclip_grad_norm_(m.parameters())\n",
        "l.backward()\no.step()\nq = SGD(n.parameters())\nq.step()\n",
        "l.backward()\no.step()\no = SGD(n.parameters())\n",
        "def f(o):\n    l.backward()\n    o.step()\n",
        "def f(x):\n    torch.autocast('cuda', dtype=torch.half, enabled=x)\nl.backward()\no.step()\n",
        "torch.autocast('cpu', dtype=torch.half)\nl.backward()\no.step()\n",
        "fully_shard(m)\nl.backward()\no.step()\n",
        "l.backward()\n",
    ],
)
def test_a_loop_that_is_not_plain_is_reported_and_left(loop):
    assert outcome(scaler_gate, MADE + HALF + loop) == (MADE + HALF + loop, [(2, TOLD)])


def test_an_old_torch_gets_the_scaler_of_its_own_module():
    code = MADE + HALF + LOOP
    assert outcome(scaler_gate, code, {"torch": "2.2.1"})[0] == made("torch.cuda.amp.GradScaler()") + HALF + SCALED
    assert outcome(scaler_gate, code, {"torch": "2.3.0"})[0] == made() + HALF + SCALED


def test_a_change_to_float16_adds_the_scaler():
    assert scaler_gate.name in requires
