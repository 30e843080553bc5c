"""Values that need the range of bfloat16 become float32: float16 overflows at 65504 and ends at 6e-8."""

import pytest

from fixers.code import bf16_to_fp16
from fixers.frame.target import Target
from fixers.plans.file_plan import plan_file
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.code.training_code import STAYS, outcome

MUON = """
class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95):
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(p, dtype=torch.bfloat16)
                buf = state["momentum_buffer"]
                buf.mul_(group["momentum"]).add_(p.grad)
                p.add_(orthogonal(p.grad + buf), alpha=-group["lr"])


def orthogonal(G, steps=5):
    a, b, c = (3.4445, -4.7750, 2.0315)
    X = G.bfloat16()
    X = X / (X.norm() + 1e-7)
    for _ in range(steps):
        A = X @ X.T
        X = a * X + (b * A + c * A @ A) @ X
    return X.to(G.dtype)
"""


def weights_after(code, gradient):
    """25 x 40 weights after three steps with gradients of that size."""
    import torch

    made = {"torch": torch}
    exec(code, made)
    torch.manual_seed(0)
    weights = torch.nn.Parameter(torch.randn(25, 40))
    optimizer = made["Muon"]([weights])
    for _ in range(3):
        weights.grad = torch.randn(25, 40) * gradient
        optimizer.step()
    return weights.detach()


@pytest.mark.parametrize("gradient", [1e-10, 1.0, 1e4], ids=["tiny", "usual", "scaled by the loss scale"])
def test_muon_keeps_every_weight_finite(gradient):
    fixed, findings = outcome(bf16_to_fp16, MUON)
    assert not findings
    moved, reference = weights_after(fixed, gradient), weights_after(MUON, gradient)
    assert moved.isfinite().all()
    assert (moved - reference).abs().max() < 0.02


def test_in_float16_the_weights_of_the_same_muon_become_nan():
    in_float16 = MUON.replace(".bfloat16()", ".half()").replace("torch.bfloat16", "torch.float16")
    assert weights_after(in_float16, 1e4).isnan().any()


FORMS = [
    # state of optimizers and averages, by keyword, key, option and word
    ("o = Adam(p, variance_dtype=torch.bfloat16)", "o = Adam(p, variance_dtype=torch.float32)"),
    ("f(momentum_dtype=torch.bfloat16)", "f(momentum_dtype=torch.float32)"),
    ("o = CPUAdam(p, state_dtype='bfloat16')", "o = CPUAdam(p, state_dtype='float32')"),
    ("c = {'optimizer_state_dtype': 'bf16'}", "c = {'optimizer_state_dtype': 'fp32'}"),
    ("p.add_argument('--ema_dtype', default='bfloat16')", "p.add_argument('--ema_dtype', default='float32')"),
    ("o = MyAdam(p, dtype=torch.bfloat16)", "o = MyAdam(p, dtype=torch.float32)"),
    ("e = EMA(model, dtype=torch.bfloat16)", "e = EMA(model, dtype=torch.float32)"),
    ("ema_dtype = getattr(torch, 'bfloat16')", "ema_dtype = getattr(torch, 'float32')"),
    ("s['exp_avg_sq'] = zeros_like(p, dtype=torch.bfloat16)", "s['exp_avg_sq'] = zeros_like(p, dtype=torch.float32)"),
    ("s = {'exp_avg': torch.zeros(3).bfloat16()}", "s = {'exp_avg': torch.zeros(3).float()}"),
    ("c = OptimizerConfig(params_dtype=torch.bfloat16)", "c = OptimizerConfig(params_dtype=torch.float16)"),
    # communication between ranks
    ("f(reduce_dtype=torch.bfloat16)", "f(reduce_dtype=torch.float32)"),
    ("f(comm_dtype=torch.bfloat16)", "f(comm_dtype=torch.float32)"),
    ("d = {'communication_data_type': 'bf16'}", "d = {'communication_data_type': 'fp32'}"),
    # losses and sums
    ("loss = loss.to(torch.bfloat16)", "loss = loss.to(torch.float32)"),
    ("total_loss += loss.bfloat16()", "total_loss += loss.float()"),
    ("loss = model(x.bfloat16())", "loss = model(x.half())"),
    ("loss = model(x, dtype=torch.bfloat16)", "loss = model(x, dtype=torch.float16)"),
    ("v = x.bfloat16().pow(2).mean()", "v = x.float().pow(2).mean()"),
    ("y = x.to(torch.bfloat16) ** 2", "y = x.to(torch.float32) ** 2"),
    ("a = torch.cumprod(b, 0, dtype=torch.bfloat16)", "a = torch.cumprod(b, 0, dtype=torch.float32)"),
    ("power = stft(x).abs().square().bfloat16()", "power = stft(x).abs().square().float()"),
    # frequencies and positions
    ("m.register_buffer('inv_freq', f.to(torch.bfloat16))", "m.register_buffer('inv_freq', f.to(torch.float32))"),
    ("positions = torch.arange(n, dtype=torch.bfloat16)", "positions = torch.arange(n, dtype=torch.float32)"),
    # a name that is used where range is needed
    ("D = torch.bfloat16\ndef zeropower(G):\n    G.to(D)", "D = torch.float32\ndef zeropower(G):\n    G.to(D)"),
    ("D = torch.bfloat16\nloss = loss.to(D)\nm.to(D)", "D = torch.float16\nloss = loss.to(torch.float32)\nm.to(D)"),
    ("u = zeropower(G, 5, torch.bfloat16)", "u = zeropower(G, 5, torch.float32)"),
    ("from torch import bfloat16\nf(ema_dtype=bfloat16)", "from torch import bfloat16\nf(ema_dtype=torch.float32)"),
    # values between 0 and 1, and inputs of the model, need no range
    ("w = F.softmax(s, -1, dtype=torch.bfloat16)", "w = F.softmax(s, -1, dtype=torch.float16)"),
    ("f(hidden_states_dtype=torch.bfloat16)", "f(hidden_states_dtype=torch.float16)"),
    ("b['mel'] = b['mel'].to(torch.bfloat16)", "b['mel'] = b['mel'].to(torch.float16)"),
    ("q = q.bfloat16()\nfor _ in z:\n    s = q @ k.T", "q = q.half()\nfor _ in z:\n    s = q @ k.T"),
    ("if x.dtype == torch.bfloat16:\n    loss = 1", STAYS),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), FORMS, ids=[before for before, _ in FORMS])
def test_what_needs_range_becomes_float32_and_the_rest_float16(before, after):
    fixed, findings = outcome(bf16_to_fp16, before)
    assert fixed == (before if after is STAYS else after)
    assert not findings
    assert outcome(bf16_to_fp16, fixed)[0] == fixed


def test_a_bare_name_is_reported_and_not_changed_if_torch_itself_is_not_imported():
    code = "from torch import bfloat16\nf(ema_dtype=bfloat16)\n"
    planned = plan_file("train.py", code.encode(), [bf16_to_fp16], Target(TITAN_RTX, {}))
    assert planned.change is None
    assert [finding.hint for finding in planned.findings] == ["import torch"]
