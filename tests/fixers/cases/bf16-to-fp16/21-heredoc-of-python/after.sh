#!/bin/bash
python - <<'PY'
import torch

x = torch.zeros(2, dtype=torch.float16)
PY
cat > probe.py <<PY
import torch
model = torch.nn.Linear(2, 2).to(torch.float16)
PY
CUDA_VISIBLE_DEVICES=0 srun python3.11 - --out $OUT <<PY
import torch
x = torch.ones(1, dtype=torch.bfloat16, device="$DEVICE")
PY
cat > notes.txt <<TXT
import torch
torch.bfloat16
TXT
