"""The ways in which Python selects bfloat16, one module per kind; `bf16_to_fp16` combines them."""
