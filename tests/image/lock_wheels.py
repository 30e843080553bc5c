"""Write wheels/requirements.txt: image-requirements.txt with the CPU build of torch in wheels/, without CUDA."""

import hashlib
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CUDA = ("cuda-", "nvidia-", "triton")

blocks = re.split(r"\n(?=[a-z0-9])", (ROOT / "image-requirements.txt").read_text())
kept = [block for block in blocks if not block.startswith((*CUDA, "torch=="))]
(torch,) = (ROOT / "wheels").glob("torch-*.whl")
digest = hashlib.sha256(torch.read_bytes()).hexdigest()
kept.append(f"torch=={torch.name.split('-')[1]} --hash=sha256:{digest}\n")
(ROOT / "wheels" / "requirements.txt").write_text("\n".join(kept))
