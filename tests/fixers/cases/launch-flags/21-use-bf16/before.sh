python t.py --use_bf16 --tf32 --use_flash_attn
