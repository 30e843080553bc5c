model = load("m", torch_dtype="bfloat16")
model = load("m", dtype='bf16')
