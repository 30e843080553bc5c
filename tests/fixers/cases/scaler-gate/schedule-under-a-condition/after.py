import torch
from transformers import get_cosine_schedule_with_warmup


class Loop:
  def __init__(self, model, config):
    self.model = model
    self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    self.scaler = torch.amp.GradScaler("cuda")
    self.lr_scheduler = None
    if config.steps:
      self.lr_scheduler = get_cosine_schedule_with_warmup(self.optimizer, 10, config.steps)

  def train(self, batches):
    scale_before = 1.0
    for batch in batches:
      with torch.autocast("cuda", dtype=torch.float16):
        loss = self.model(batch).mean()
      self.scaler.scale(loss).backward()
      self.scaler.step(self.optimizer)
      scale_before_2 = self.scaler.get_scale()
      self.scaler.update()
      self.optimizer.zero_grad(set_to_none=True)
      print(f"{loss.item():.3f}", scale_before)
      if self.lr_scheduler is not None:
        if self.scaler.get_scale() >= scale_before_2:
          self.lr_scheduler.step()  # once per optimizer step
