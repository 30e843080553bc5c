def collate(rows, tokenizer, size):
    found = []
    for row in rows:
        labels = row["labels"] + [tokenizer.pad_token_id] * (size - len(row["labels"]))
        found.append({"input_ids": row["input_ids"], "labels": [-100 if t == 0 else t for t in labels]})
    return found
