"""The built-in trainer: LoRA on audio language models, for people who bring data and no code."""

import logging

# peft imports bitsandbytes, which warns on every CPU about kernels that would have to be downloaded.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
