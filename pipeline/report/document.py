"""A self-contained HTML document: its style, its security policy, and the script that draws its curves."""

from __future__ import annotations

from pipeline.report.formatting import text
from pipeline.report.live_curves import NO_SCRIPT, policy, script, style

CURVE = '<figure class="curve'


def render_document(title: str, body: str) -> str:
    """Return the document. `body` is HTML; `title` is plain text. The script is included if there is a curve."""
    draws = CURVE in body
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy() if draws else NO_SCRIPT}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{text(title)}</title><style>{style()}</style></head>"
        f"<body><main>{body}</main>{f'<script>{script()}</script>' if draws else ''}</body></html>\n"
    )
