"""Draw docs/options.svg: the questions that decide which options a search needs, with what to write for each answer.

Run as ``python docs/make_options_picture.py [FILE]``; it needs nothing but Python.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

QUESTIONS = {
    "How many queries\non the same atoms?": [
        ("one", "bm.search(atoms, query)"),
        ("more", "bm.BanditMIPS().fit(atoms)"),
    ],
    "Where are\nthe atoms?": [
        ("in memory", "give the array"),
        ("in a file", 'give its path: fit("atoms.npy")'),
        ("on machines", "DistributedMIPS(client)"),
    ],
    "What is best?": [
        ("inner product", "(the default)"),
        ("direction", 'objective="cosine"'),
        ("ups and downs", 'objective="correlation"'),
        ("least different", 'objective="neg_sqeuclidean"'),
        ("either sign", "absolute=True"),
        ("the smallest", 'ends="smallest"'),
    ],
    "What do you need\nof the scores?": [
        ("exact ones", "(the default)"),
        ("estimates", "rescore=False"),
    ],
    "How sure,\nat what price?": [
        ("1 in 1,000 wrong", "(the default)"),
        ("surer", "delta=1e-6"),
        ("nearly best will do", "epsilon=..."),
        ("a deadline", "budget=..."),
    ],
}
LINE, GAP, TOP, WIDTH = 30, 22, 14, 720
ASKED, ANSWERED, WRITTEN = 14, 236, 404
STYLE = """
text { font: 15px system-ui, sans-serif; fill: #1c2b2a; }
.question { font-weight: 600; }
.code { font: 14px ui-monospace, monospace; }
"""


def text(x: float, y: float, content: str, kind: str = "") -> str:
    """One line of text."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(content)}</text>'


def draw() -> str:
    """Return the picture as SVG."""
    parts, y = [], TOP
    for question, answers in QUESTIONS.items():
        height = LINE * len(answers)
        middle = y + height / 2
        lines = question.split("\n")
        box = max(height, 22 * len(lines) + 16)
        y_box = middle - box / 2
        parts.append(f'<rect x="4" y="{y_box:g}" width="184" height="{box:g}" rx="8" fill="#d9efec" stroke="#00796b"/>')
        for i, line in enumerate(lines):
            parts.append(text(ASKED, middle + 5 + 20 * (i - (len(lines) - 1) / 2), line, "question"))
        for i, (answer, code) in enumerate(answers):
            row = y + LINE * (i + 0.5)
            parts.append(
                f'<path d="M188 {middle:g} C 212 {middle:g} 208 {row:g} 228 {row:g}" fill="none" stroke="#00796b"/>'
            )
            parts.append(text(ANSWERED, row + 5, answer))
            shade = "#f4f4f4" if code.startswith("(") else "#fff1e8"
            parts.append(f'<rect x="{WRITTEN - 8}" y="{row - 13:g}" width="316" height="26" rx="5" fill="{shade}"/>')
            parts.append(text(WRITTEN, row + 5, code, "code"))
        y += height + GAP
    height = y - GAP + TOP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">\n'
        f"<title>Which option when</title>\n<style>{STYLE}</style>\n"
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("options.svg")
    target.write_text(draw(), encoding="utf-8")
