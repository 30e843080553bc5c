a = {"fp16": {"enabled": True, "loss_scale": 0, "initial_scale_power": 16, "hysteresis": 2, "min_loss_scale": 1}, "zero_optimization": {"stage": 2}}
b = {"bf16": {"enabled": False}, "fp16": {"enabled": True, "loss_scale": 0}}
c = {"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}
d = {"bf16": {"enabled": False}}
e = {"bf16": {"enabled": True}, "fp16": fp16}
