"""Trains."""

from __future__ import annotations

import os
from transformers import AutoModelForCausalLM, Trainer

model = AutoModelForCausalLM.from_pretrained("m", device_map={"": int(os.environ.get("LOCAL_RANK", "0"))}, quantization_config=q)
teacher = AutoModelForCausalLM.from_pretrained("t", device_map='balanced', quantization_config=q)
trainer = Trainer(model=model)
