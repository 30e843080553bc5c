import lightning as L

a = L.Fabric(dtype="fp16")
b = Trainer(precision="fp16")
c = ["bf16"] if x else dict(precision="fp16")
precision = L.pick("bf16" if x else "32")
