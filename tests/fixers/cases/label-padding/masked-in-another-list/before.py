def collate(rows, tokenizer, size):
    found = []
    for row in rows:
        labels = row["labels"] + [tokenizer.pad_token_id] * (size - len(row["labels"]))
        inputs = [-100 if t == 0 else t for t in row["input_ids"]]
        found.append({"input_ids": inputs, "labels": labels})
    return found
