from accelerate import Accelerator
from transformers import AutoModelForCausalLM

accelerator = Accelerator()
model = AutoModelForCausalLM.from_pretrained("m", device_map="auto").half()
for batch in loader:
    print(model.generate(**batch.to(accelerator.device)))
