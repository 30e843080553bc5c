args.bf16 = True
config["bf16"] = True
other.bf16 = True
other.fp16 = False
