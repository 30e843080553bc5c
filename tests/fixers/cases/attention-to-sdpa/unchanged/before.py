"""Runs with flash_attention_2."""

import torch

if config._attn_implementation == "flash_attention_2":
    print("flash_attention_2")
KERNELS = {"flash_attention_2": flash, "sdpa": sdpa}
names = ["flash_attention_2", "sdpa"]
attn_impl = "flash_attention_2" if torch.cuda.get_device_capability() >= (8, 0) else "sdpa"
title = "flash_attention_2"
args = make(use_flash_attention_2=False)
