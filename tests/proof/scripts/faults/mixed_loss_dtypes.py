"""The loss compares a float16 student with a float32 teacher, outside autocast.

expects: found-float-expected-half
"""

import mini
import torch

model = mini.build()
given = mini.batch()
with mini.autocast():
    student = model.logits(given["input_ids"])
loss = torch.nn.functional.huber_loss(student.half(), torch.zeros(student.shape))
loss.backward()
