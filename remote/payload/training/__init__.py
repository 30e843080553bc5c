"""The built-in trainer: LoRA on audio language models, for users who have data but no training script."""

import logging

# peft imports bitsandbytes, which warns on every CPU about kernels that would have to be downloaded.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
