swift sft --attn_impl flash_attn --padding_free true --packing true
python t.py --attn-implementation=kernels-community/vllm-flash-attn3
python t.py --use_flash_attn True --flash_attn fa2
python t.py --attn_implementation eager --flash_attn auto
