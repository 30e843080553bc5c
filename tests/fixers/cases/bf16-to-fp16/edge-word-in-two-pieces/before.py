model = load("m", torch_dtype="bf16" "")
