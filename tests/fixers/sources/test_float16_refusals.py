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
}


@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED)
def test_a_line_that_raises_for_float16_is_found(code: str) -> None:
    assert line_that_refuses(b"import torch\n" + code.encode()) == 2


@pytest.mark.parametrize("code", ACCEPTED.values(), ids=ACCEPTED)
def test_a_line_that_float16_passes_is_not(code: str) -> None:
    assert line_that_refuses(b"import torch\n" + code.encode()) == 0
