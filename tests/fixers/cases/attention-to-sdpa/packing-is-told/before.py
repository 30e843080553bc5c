args = make(attn_implementation="flash_attention_2", packing=True)
