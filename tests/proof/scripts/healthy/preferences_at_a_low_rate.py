"""Preference training at a learning rate of 5e-7: the printed loss stays 0.6931 in float32."""

import copy

import mini
import torch

torch.manual_seed(7)
policy = mini.Mini()
reference = copy.deepcopy(policy)
optimizer = torch.optim.RMSprop(mini.trained(policy), lr=5e-7)
chosen, rejected = mini.batch(), mini.batch()
for _ in range(30):
    with torch.no_grad():
        wanted = reference(**rejected) - reference(**chosen)
    margin = policy(**rejected) - policy(**chosen) - wanted
    loss = -torch.nn.functional.logsigmoid(0.001 * margin)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
