from transformers import AutoModelForCausalLM, AutoProcessor

a = AutoModelForCausalLM.from_pretrained("m", dtype="auto")
b = AutoModelForCausalLM.from_pretrained("m")
c = AutoModelForCausalLM.from_pretrained(
    ("m"),  # the base
    trust_remote_code=True,
)
d = AutoProcessor.from_pretrained("m")
