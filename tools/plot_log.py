#!/usr/bin/env python3
"""plot_log.py -- curves of runs (train --out DIR writes DIR/log.jsonl) as a small SVG.

    plot_log.py LOG.jsonl OUT.svg [UNIT]             training and validation loss of one run, in nats/byte or UNIT
    plot_log.py --score KEY OUT.svg NAME=LOG.jsonl.. a validation score (valid_accuracy) of several; one colour per NAME
"""
import json
import sys

W, H, LEFT, BOTTOM = 640, 320, 56, 40
COLOURS = ["#c2410c", "#64748b", "#0f766e", "#7c3aed"]


def read(log, key):
    rows = [json.loads(line) for line in open(log, encoding="utf-8")]
    return [(r["step"], r[key]) for r in rows if r.get(key) is not None]


def draw(out, lines, low, top, title, digits):
    """lines: (name, points, colour, width, whether points are marked); a name is written once."""
    last = max(points[-1][0] for _, points, *_ in lines)

    def at(p):
        return (f"{LEFT + (W - LEFT - 12) * p[0] / last:.1f}",
                f"{H - BOTTOM - (H - BOTTOM - 12) * (p[1] - low) / (top - low):.1f}")

    body, named = "", []
    for name, points, colour, width, marked in lines:
        body += (f'<polyline fill="none" stroke="{colour}" stroke-width="{width}" '
                 f'points="{" ".join(",".join(at(p)) for p in points)}"/>')
        if marked:
            body += "".join('<circle cx="%s" cy="%s" r="3" fill="%s"/>' % (*at(p), colour) for p in points)
        if name not in [n for n, _ in named]:
            named.append((name, colour))
    for i in range(6):
        y, step = low + (top - low) * i / 5, last * i // 5
        body += f'<text x="{LEFT - 6}" y="{at((0, y))[1]}" text-anchor="end">{y:.{digits}f}</text>'
        body += f'<text x="{at((step, low))[0]}" y="{H - BOTTOM + 18}" text-anchor="middle">{step}</text>'
    middle = H / 2 if len(lines) > 2 else 24             # scores crowd at the top, losses at the bottom
    for i, (name, colour) in enumerate(named):
        body += f'<text x="{W - 16}" y="{middle + 16 * i}" text-anchor="end" fill="{colour}">{name}</text>'
    svg = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" font-family="sans-serif" font-size="12">'
           f'<rect width="{W}" height="{H}" fill="white"/>{body}'
           f'<text x="{W / 2}" y="{H - 6}" text-anchor="middle">step</text>'
           f'<text x="14" y="{H / 2}" text-anchor="middle" transform="rotate(-90 14 {H / 2})">{title}</text></svg>\n')
    open(out, "w", encoding="utf-8").write(svg)


def loss(log, out, unit="nats/byte"):
    train, valid = read(log, "loss"), read(log, "valid_loss")
    values = [y for _, y in train + valid]
    lines = [("training", train, COLOURS[1], 1, False)] + ([("validation", valid, COLOURS[0], 2, True)] if valid else [])
    draw(out, lines, min(values), max(values), f"loss, {unit}", 1)


def score(key, out, *runs):
    names = list(dict.fromkeys(r.split("=", 1)[0] for r in runs))
    lines = []
    for run in runs:
        name, log = run.split("=", 1)
        lines.append((name, read(log, key), COLOURS[names.index(name) % len(COLOURS)], 1.5, True))
    draw(out, lines, 0, 1, key.replace("valid_", "validation "), 1)


if sys.argv[1] == "--score":
    score(*sys.argv[2:])
else:
    loss(*sys.argv[1:])
