#!/bin/bash
# train with --bf16 True
export ACCELERATE_MIXED_PRECISION=bf16 OTHER="bf16"
accelerate launch --num_processes 1 \
    --mixed_precision bf16 \
    src/train.py --config paper_r64 --bf16 True --tf32 True \
    --torch_dtype bfloat16 --attn_implementation flash_attention_2 \
    --output_dir "out/bf16-run" --name "exp bf16 True" # --bf16
echo "started with --bf16" --bf16
