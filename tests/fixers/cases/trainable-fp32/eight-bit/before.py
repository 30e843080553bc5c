import bitsandbytes as bnb

model = model.half()
optimizer = bnb.optim.AdamW8bit(model.parameters(), lr=1e-4)
