from trl import GRPOConfig, SFTConfig

a = SFTConfig(output_dir="o", fp16=True)
b = SFTConfig(output_dir="o", fp16=True)
c = GRPOConfig(fp16=True)
d = SFTConfig(**options)
