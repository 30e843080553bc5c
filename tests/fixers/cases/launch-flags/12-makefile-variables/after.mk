KERNEL ?= sdpa
NOTE = flash_attention_2
export USE_FLASH_ATTN := false

train:
	ATTN_IMPL=sdpa python train.py --attn_implementation $(KERNEL)
