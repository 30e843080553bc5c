model = load("m", torch_dtype="float16")
model = load("m", dtype='fp16')
