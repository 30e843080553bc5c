args = make(attn_implementation="sdpa", packing=True)
