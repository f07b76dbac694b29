"""Curves as an SVG picture on two logarithmic axes, readable in light and in dark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 36, 44
STYLE = """<style>
text{font:12px system-ui,sans-serif;fill:#24292f}.grid{stroke:#d0d7de}.axis{stroke:#57606a}
.c0{--c:#0969da}.c1{--c:#bc4c00}.c2{--c:#1a7f37}.c3{--c:#8250df}.c4{--c:#bf3989}
polyline{fill:none;stroke:var(--c);stroke-width:2}circle{fill:var(--c)}text.name{fill:var(--c)}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#30363d}.axis{stroke:#8b949e}
.c0{--c:#58a6ff}.c1{--c:#ffa657}.c2{--c:#56d364}.c3{--c:#d2a8ff}.c4{--c:#ff80c8}}
</style>"""


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a picture."""

    name: str
    points: Sequence[tuple[float, float]]


class Axis:
    """A logarithmic axis over whole powers of ten."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        self.low = math.floor(math.log10(min(values)))
        self.high = max(self.low + 1, math.ceil(math.log10(max(values))))
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self._begin + share * (self._end - self._begin)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def picture(title: str, unit: str, curves: Sequence[Curve], counted: str = "passages") -> str:
    """The picture; `counted` is the name of the horizontal axis."""
    values = [max(value, 1e-3) for curve in curves for _, value in curve.points]
    across = Axis([count for curve in curves for count, _ in curve.points], LEFT, WIDTH - RIGHT)
    up = Axis(values, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{title}, {unit}</title>{STYLE}",
        f'<text x="{LEFT}" y="20">{title}, {unit}</text>',
        *(_line(across.at(tick), TOP, across.at(tick), HEIGHT - BOTTOM) for tick in across.ticks()),
        *(_line(LEFT, up.at(tick), WIDTH - RIGHT, up.at(tick)) for tick in up.ticks()),
        *(
            f'<text x="{across.at(tick):.0f}" y="{HEIGHT - 24}" text-anchor="middle">{tick:,.0f}</text>'
            for tick in across.ticks()
        ),
        *(
            f'<text x="{LEFT - 8}" y="{up.at(tick) + 4:.0f}" text-anchor="end">{tick:,g}</text>'
            for tick in up.ticks()
        ),
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{counted}</text>',
    ]
    names = _apart([up.at(max(curve.points[-1][1], 1e-3)) for curve in curves])
    for number, (curve, name_at) in enumerate(zip(curves, names, strict=True)):
        points = [(across.at(count), up.at(max(value, 1e-3))) for count, value in curve.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points)
        label = f'<text class="name" x="{WIDTH - RIGHT + 8}" y="{name_at + 4:.0f}">{curve.name}</text>'
        parts.append(f'<g class="c{number % 5}"><polyline points="{path}"/>{dots}{label}</g>')
    return "\n".join([*parts, "</svg>", ""])


def _apart(heights: Sequence[float], least: float = 15) -> list[float]:
    """Move names down that would overlap."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    placed = dict(enumerate(heights))
    for above, below in pairwise(order):
        placed[below] = max(placed[below], placed[above] + least)
    return [placed[index] for index in range(len(heights))]


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
