def encode(tokenizer, prompt, labels):
    input_ids = tokenizer(prompt)
    input_type_mask = [1] * len(input_ids) + [4] * len(labels) + [0] * len(tokenizer.eos)
    kinds = [1] * len(input_ids) + [4] * len(labels) + [0] * len(tokenizer.eos)
    label_mask = labels + [0] * (512 - len(labels)) + [0] * len(kinds)
    return input_ids, input_type_mask, label_mask
