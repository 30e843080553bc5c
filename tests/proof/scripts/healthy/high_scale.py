"""The scale starts at 2^40, and comes down in more steps than a proof has patience for."""

import mini

mini.train(mini.build(), scale=2.0**40, steps=60)
