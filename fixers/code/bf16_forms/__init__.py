"""The forms in which Python asks for bfloat16, one module per kind; `bf16_to_fp16` puts them together."""
