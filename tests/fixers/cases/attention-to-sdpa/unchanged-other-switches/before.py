options = {"use_flash_attn": flag, "trust_remote_code": True}
args.trust_remote_code = True
model = load(trust_remote_code=True, use_flash_attn=flag)
x = use_flash_attn == True
args = make(packing=False, padding_free=flag)
