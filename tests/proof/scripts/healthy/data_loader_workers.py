"""Batches come from worker processes, which inherit the hooks and must not write reports."""

import mini
import torch


class Batches(torch.utils.data.Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, at):
        return {name: tensor[1] for name, tensor in mini.batch().items()}


feed = iter(torch.utils.data.DataLoader(Batches(), batch_size=4, num_workers=1))
mini.train(mini.build(), make=lambda: next(feed), steps=10)
