"""Whether half precision will train: hooks put into the command from outside, and the judgement over what they saw."""
