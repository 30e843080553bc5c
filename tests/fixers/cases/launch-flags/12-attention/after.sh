swift sft --attn_impl sdpa --padding_free false --packing true
python t.py --attn-implementation=sdpa
python t.py --use_flash_attn False --flash_attn sdpa
python t.py --attn_implementation eager --flash_attn auto
