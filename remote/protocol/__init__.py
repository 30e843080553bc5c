"""What the laptop and the payload say to each other: plain values and judgements, stdlib only, Python 3.9+."""
