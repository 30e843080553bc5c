deepspeed t.py --fp16 True --disable_flash_attn2 True --padding_free False
deepspeed t.py --disable_flash_attn2 True
