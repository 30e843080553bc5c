"""The whole loop is inside of one autocast.

expects: autocast-cache (error)
"""

import mini

with mini.autocast():
    mini.train(mini.build())
