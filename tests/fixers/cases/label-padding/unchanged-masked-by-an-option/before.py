def encode(tokenizer, query, answer, size, ignore_pad_token_for_loss):
    input_ids = query + answer
    labels = [tokenizer.pad_token_id] * len(query) + answer
    missing = size - len(input_ids)
    input_ids = input_ids + [tokenizer.pad_token_id] * missing
    labels = labels + [tokenizer.pad_token_id] * missing
    if ignore_pad_token_for_loss:
        labels = [(t if t != tokenizer.pad_token_id else -100) for t in labels]
    return {"input_ids": input_ids, "labels": labels}
