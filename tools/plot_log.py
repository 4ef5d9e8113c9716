#!/usr/bin/env python3
"""plot_log.py LOG.jsonl OUT.svg -- the loss curve of a run (train --out DIR writes DIR/log.jsonl) as a small SVG."""
import json
import sys

W, H, LEFT, BOTTOM = 640, 320, 56, 40


def main(log, out):
    rows = [json.loads(line) for line in open(log, encoding="utf-8")]
    train = [(r["step"], r["loss"]) for r in rows if r["loss"] is not None]
    valid = [(r["step"], r["valid_loss"]) for r in rows if r.get("valid_loss") is not None]
    top, low = max(y for _, y in train), min(y for _, y in train + valid)
    last = train[-1][0]

    def at(p):
        return f"{LEFT + (W - LEFT - 12) * p[0] / last:.1f},{H - BOTTOM - (H - BOTTOM - 12) * (p[1] - low) / (top - low):.1f}"

    def line(points, colour, width):
        return f'<polyline fill="none" stroke="{colour}" stroke-width="{width}" points="{" ".join(map(at, points))}"/>'

    ticks = [low + (top - low) * i / 5 for i in range(6)]
    labels = "".join(f'<text x="{LEFT - 6}" y="{at((0, y)).split(",")[1]}" text-anchor="end">{y:.1f}</text>' for y in ticks)
    steps = "".join(f'<text x="{at((last * i / 5, low)).split(",")[0]}" y="{H - BOTTOM + 18}" text-anchor="middle">{last * i // 5}</text>' for i in range(6))
    dots = "".join(f'<circle cx="{at(p).split(",")[0]}" cy="{at(p).split(",")[1]}" r="3" fill="#c2410c"/>' for p in valid)
    svg = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" font-family="sans-serif" font-size="12">'
           f'<rect width="{W}" height="{H}" fill="white"/>{labels}{steps}{line(train, "#64748b", 1)}{line(valid, "#c2410c", 2)}{dots}'
           f'<text x="{W - 16}" y="24" text-anchor="end" fill="#c2410c">validation</text>'
           f'<text x="{W - 16}" y="40" text-anchor="end" fill="#64748b">training</text>'
           f'<text x="{W / 2}" y="{H - 6}" text-anchor="middle">step</text>'
           f'<text x="14" y="{H / 2}" text-anchor="middle" transform="rotate(-90 14 {H / 2})">loss, nats/byte</text></svg>\n')
    open(out, "w", encoding="utf-8").write(svg)


main(*sys.argv[1:])
