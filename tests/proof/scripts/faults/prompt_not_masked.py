"""The labels include the prompt as well as the answer.

expects: labels-prompt
"""

import mini

mini.train(mini.build(), make=lambda: mini.batch(prompt=0))
