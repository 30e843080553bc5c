model = load(attn_implementation="flash_attention_2")
