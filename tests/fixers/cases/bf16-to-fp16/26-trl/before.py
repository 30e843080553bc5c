from trl import GRPOConfig, PPOConfig, SFTConfig

a = SFTConfig(output_dir="o")
b = SFTConfig(output_dir="o", fp16=True)
c = GRPOConfig()
e = PPOConfig(output_dir="o")
f = PPOConfig(model_name="m", ppo_epochs=1)
d = SFTConfig(**options)
