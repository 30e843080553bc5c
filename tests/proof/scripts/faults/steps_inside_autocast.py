"""The whole training loop, optimizer steps included, is inside one autocast block.

expects: autocast-cache (error)
"""

import mini

with mini.autocast():
    mini.train(mini.build())
