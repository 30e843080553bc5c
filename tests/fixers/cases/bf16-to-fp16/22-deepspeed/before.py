a = {"bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}
b = {"bf16": {"enabled": True}, "fp16": {"enabled": False, "loss_scale": 0}}
c = {"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}
d = {"bf16": {"enabled": False}}
e = {"bf16": {"enabled": True}, "fp16": fp16}
