"""A line refuses float16 only if selecting float16 on a card reaches its error."""

from __future__ import annotations

import pytest

from fixers.sources.float16_refusals import line_that_refuses

REFUSED = {
    "a dtype": "if self.dtype == torch.float16:\n    raise ValueError('fp16')\n",
    "a dtype, after a comment": "if dtype is torch.half:\n    # not trained\n    raise ValueError\n",
    "a word": "elif args.precision == 'fp16':\n    raise NotImplementedError\n",
    "one of several words": "if args.precision in ('fp16', 'int8'):\n    raise ValueError\n",
    "a switch": "if args.fp16:\n    raise ValueError('use bf16')\n",
    "a switch under another condition": "if dtype == torch.float16 and model.tied:\n    raise ValueError\n",
    "an assertion": "assert dtype != torch.float16\n",
    "an assertion about a switch": "assert not args.fp16, 'fp16 overflows'\n",
    "an assertion of identity": "assert self.dtype is not torch.float16\n",
    "an assertion about several tensors": "assert all(x.dtype != torch.float16 for x in inputs)\n",
}
ACCEPTED = {
    "both switches": "assert not (args.bf16 and args.fp16), 'choose one'\n",
    "both switches in a branch": "if args.fp16 and args.bf16:\n    raise ValueError('choose one')\n",
    "switches that differ": "assert args.fp16 != args.bf16\n",
    "neither switch": "if not args.fp16 and not args.bf16:\n    raise ValueError('half precision only')\n",
    "words that include it": "if args.dtype not in ['float16', 'bfloat16']:\n    raise ValueError(args.dtype)\n",
    "dtypes that include it": "if dtype not in (torch.float16, torch.float32):\n    raise TypeError\n",
    "no card": "if args.fp16 and not torch.cuda.is_available():\n    raise ValueError('needs a card')\n",
    "the CPU": "if device.type == 'cpu' and dtype == torch.float16:\n    raise ValueError('slow')\n",
    "another option": "if args.fp16 and args.optimizer.startswith('paged'):\n    raise ValueError\n",
    "a missing value": "assert args.fp16 is not None\n",
    "another dtype": "if dtype == torch.bfloat16:\n    raise ValueError('not fp16')\n",
    "a required one": "assert dtype == torch.float16\n",
    "dtypes of several tensors": "assert all((x.dtype in [torch.float16, torch.bfloat16] for x in (a, b)))\n",
    "any of several tensors": "assert any([x.dtype is torch.half for x in inputs])\n",
    "a device object": "if device == torch.device('cpu') and args.fp16:\n    raise ValueError('slow')\n",
    "a branch for the CPU": "if args.device == torch.device('cpu'):\n    if args.fp16:\n        raise ValueError\n",
    "a branch without a card": "if not torch.cuda.is_available():\n    print()\n    assert not args.fp16\n",
    "the other branch of a card": "if torch.cuda.is_available():\n    pass\nelif args.fp16:\n    raise TypeError\n",
}
REFUSED_IN_BRANCHES = {
    "for a card": "if device.type == 'cuda':\n    if args.fp16:\n        raise ValueError\n",
    "for other devices than the CPU": "if device != torch.device('cpu'):\n    if args.fp16:\n        raise TypeError\n",
    "for an unknown condition": "if args.compile:\n    if args.fp16:\n        raise ValueError\n",
}


@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED)
def test_a_line_that_raises_for_float16_is_found(code: str) -> None:
    assert line_that_refuses(b"import torch\n" + code.encode()) == 2


@pytest.mark.parametrize("code", ACCEPTED.values(), ids=ACCEPTED)
def test_a_line_that_float16_passes_is_not(code: str) -> None:
    assert line_that_refuses(b"import torch\n" + code.encode()) == 0


@pytest.mark.parametrize("code", REFUSED_IN_BRANCHES.values(), ids=REFUSED_IN_BRANCHES)
def test_a_line_in_a_branch_that_runs_on_a_card_is_found(code: str) -> None:
    assert line_that_refuses(b"import torch\n" + code.encode()) == 3


KERNEL = """import torch


def mix(r, k, *, scale=1.0):
    state = new_state(r).to(torch.bfloat16)
    {check}
    return kernel(r, k, state)
"""


@pytest.mark.parametrize(
    ("check", "line"),
    [
        ("assert r.dtype == torch.bfloat16", 6),
        ("assert k.dtype is torch.bfloat16 and k.is_cuda, 'a message'", 6),
        ("assert all(x.dtype == torch.bfloat16 for x in (r, k))", 6),
        ("assert state.dtype == torch.bfloat16", 0),
        ("assert r.dtype != torch.bfloat16", 0),
        ("assert r.dtype in (torch.float16, torch.bfloat16)", 0),
        ("assert r.dtype == torch.float32 or r.dtype == torch.bfloat16 or r.dtype == torch.half", 0),
    ],
)
def test_a_kernel_that_requires_bfloat16_arguments_refuses_float16(check: str, line: int) -> None:
    assert line_that_refuses(KERNEL.format(check=check).encode()) == line


def test_a_kernel_for_bfloat16_that_only_bfloat16_reaches_does_not() -> None:
    guarded = "if r.dtype == torch.bfloat16:\n        assert k.dtype == torch.bfloat16"
    assert line_that_refuses(KERNEL.format(check=guarded).encode()) == 0


METRIC = b"""import torch


def metric(x, groups):
    assert x.dtype != torch.float16
    return x.mean()


def penalty(x):
    with torch.autocast("cuda", enabled=False):
        copy = x.to(torch.float32).detach()
        return metric(%b)
"""


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (b"copy, 2", 0),
        (b"x.float(), 2", 0),
        (b"groups=2, x=copy", 0),
        (b"x, 2", 5),
        (b"x, 2) + metric(copy, 2", 5),
        (b"groups=copy", 5),
    ],
)
def test_an_assertion_about_an_argument_that_each_call_casts_is_no_refusal(arguments: bytes, line: int) -> None:
    assert line_that_refuses(METRIC % arguments) == line


def test_an_assertion_in_a_function_without_calls_is_a_refusal() -> None:
    assert line_that_refuses(METRIC.partition(b"def penalty")[0]) == 5
