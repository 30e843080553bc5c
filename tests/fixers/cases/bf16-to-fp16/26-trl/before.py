from trl import GRPOConfig, SFTConfig

a = SFTConfig(output_dir="o")
b = SFTConfig(output_dir="o", fp16=True)
c = GRPOConfig()
d = SFTConfig(**options)
