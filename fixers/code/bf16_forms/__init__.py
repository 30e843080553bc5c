"""Edits for each way in which Python code selects bfloat16. `bf16_to_fp16` combines these edits."""
