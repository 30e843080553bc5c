deepspeed t.py --bf16 True --disable_flash_attn2 False --padding_free True
deepspeed t.py --disable_flash_attn2 True
