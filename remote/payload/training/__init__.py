"""The built-in trainer: LoRA on audio language models, for people who bring data and no code."""
