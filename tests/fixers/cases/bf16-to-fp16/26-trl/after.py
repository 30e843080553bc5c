from trl import GRPOConfig, PPOConfig, SFTConfig

a = SFTConfig(output_dir="o", fp16=True)
b = SFTConfig(output_dir="o", fp16=True)
c = GRPOConfig(fp16=True)
e = PPOConfig(output_dir="o", fp16=True)
f = PPOConfig(model_name="m", ppo_epochs=1)
d = SFTConfig(**options)
