a = {"bf16": {"enabled": False}, "fp16": {"enabled": "auto"}}
b = {"bf16": {"enabled": False}, "fp16": {"enabled": "auto"}}
c = {"bf16": {"enabled": False}, "fp16": {"enabled": True}}
d = {"bf16": {}, "fp16": {"enabled": False}}
e = {"bf16": {"enabled": True}, "fp16": {"loss_scale": 0}}
f = {"fp16": {"enabled": "auto", "loss_scale": 0, "initial_scale_power": 16, "hysteresis": 2, "min_loss_scale": 1}}
