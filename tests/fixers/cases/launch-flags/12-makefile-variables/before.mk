KERNEL ?= flash_attention_2
NOTE = flash_attention_2
export USE_FLASH_ATTN := true

train:
	ATTN_IMPL=flash_attention_2 python train.py --attn_implementation $(KERNEL)
