args.fp16 = True
config["fp16"] = True
other.bf16 = False
other.fp16 = True
