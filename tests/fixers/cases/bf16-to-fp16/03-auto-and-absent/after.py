from transformers import AutoModelForCausalLM, AutoProcessor

a = AutoModelForCausalLM.from_pretrained("m", dtype="float16")
b = AutoModelForCausalLM.from_pretrained("m", dtype="float16")
c = AutoModelForCausalLM.from_pretrained(
    ("m"),  # the base
    trust_remote_code=True, dtype="float16",
)
d = AutoProcessor.from_pretrained("m")
