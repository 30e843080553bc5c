a = {"bf16": {"enabled": True}, "fp16": {"enabled": "auto"}}
b = {"bf16": {"enabled": "auto"}, "fp16": {"enabled": False}}
c = {"bf16": {"enabled": True}, "fp16": {"enabled": True}}
d = {"bf16": {}, "fp16": {"enabled": False}}
e = {"bf16": {"enabled": True}, "fp16": {"loss_scale": 0}}
f = {"bf16": {"enabled": "auto"}}
