"""The frame of a page that a command writes: colours, type and spacing, light and dark; nothing loaded."""

from html import escape

STYLE = """
:root { color-scheme: light dark;
  --page: #f6f5f1; --card: #fffefb; --ink: #1b2230; --muted: #5c6575; --line: #e3e0d8;
  --kept: #2f68d0; --pale: #a7bfea; --on-kept: #fff; --redrawn: #f0a030; --on-redrawn: #2b1900;
  --rejected: #8b94a2; --right: #b9c2d0; --wrong: #c92f4b; --good: #1c7a4a; }
@media (prefers-color-scheme: dark) { :root {
  --page: #10141b; --card: #181e28; --ink: #e7ebf2; --muted: #9ca7b8; --line: #2b3441;
  --kept: #5f97f6; --pale: #35507f; --on-kept: #07132b; --redrawn: #f2ac4a; --on-redrawn: #2b1900;
  --rejected: #7d889a; --right: #4d5a6d; --wrong: #ff6f83; --good: #5fd39a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 36px 20px 56px; }
h1 { font-size: 28px; line-height: 1.2; letter-spacing: -.01em; margin: 0 0 6px; text-wrap: balance; }
h2 { font-size: 19px; margin: 36px 0 4px; }
h3 { font-size: 15px; margin: 0; }
p { margin: 0; }
.lead, .note { color: var(--muted); max-width: 76ch; }
.facts + .note { margin-top: 18px; }
.card > .legend { margin: 0; }
.card > .note { max-width: none; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 14px; padding: 18px 20px;
  margin: 14px 0; }
.scroll { overflow-x: auto; }
code { font: 13px ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }

.facts { display: flex; flex-wrap: wrap; gap: 10px 36px; margin: 20px 0 0; padding: 0; }
.facts div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
.facts dt { font-size: 13px; color: var(--muted); }
.facts dd { margin: 0; font-size: 24px; line-height: 1.3; font-weight: 650; }
.facts .good, .none { color: var(--good); }
.facts .bad { color: var(--wrong); }

.legend { display: flex; flex-wrap: wrap; gap: 4px 22px; list-style: none; margin: 0 0 10px; padding: 0;
  font-size: 14px; }
.legend i { display: inline-block; width: 15px; height: 15px; border-radius: 3px; margin-right: 7px;
  vertical-align: -2px; }
i.kept { background: var(--kept); }
i.redrawn { background: var(--redrawn); }
i.pale { background: var(--pale); }
i.right { background: var(--right); }
i.over { background: var(--wrong); }
i.rejected { border: 1px solid var(--rejected);
  background: repeating-linear-gradient(135deg, var(--rejected) 0 2px, transparent 2px 6px); }
i.short { background: repeating-linear-gradient(135deg, var(--wrong) 0 2px, transparent 2px 6px); }
i.outline { border: 2px solid var(--ink); }

svg { display: block; width: 100%; height: auto; font-variant-numeric: tabular-nums;
  font: 13px system-ui, "Segoe UI", Roboto, "Noto Sans", Arial, sans-serif; }
svg text { fill: var(--ink); }
.label, .name { text-anchor: middle; }
.tick, .row { text-anchor: end; }
svg .tick, svg .draft { fill: var(--muted); }
svg .name { font-size: 15px; font-weight: 600; }
svg .target { font-weight: 650; }
svg .on-kept { fill: var(--on-kept); }
svg .on-redrawn { fill: var(--on-redrawn); }
svg .off { fill: var(--wrong); font-weight: 650; }
.grid { stroke: var(--line); }
.base { stroke: var(--muted); }
rect.kept { fill: var(--kept); }
rect.pale { fill: var(--pale); }
rect.redrawn { fill: var(--redrawn); }
rect.rejected { fill: url(#grey); stroke: var(--rejected); }
rect.right { fill: var(--right); }
rect.over { fill: var(--wrong); }
rect.short { fill: url(#red); stroke: var(--wrong); }
line.best { stroke: var(--good); stroke-width: 2; stroke-dasharray: 5 3; }
svg .best { fill: var(--good); font-size: 13px; }
rect.span { fill: var(--ink); opacity: .55; }
rect.predicted { fill: none; stroke: var(--ink); stroke-width: 1.5; }
.left { text-anchor: start; }
polyline.track { fill: none; stroke-width: 1.6; stroke-linejoin: round; stroke: currentColor; }
polyline.t0 { stroke-width: 3; }
svg text.track { fill: currentColor; font-size: 12px; }
svg text.t0 { font-weight: 650; }
.t0 { color: var(--ink); } .t1 { color: #d1662b; } .t2 { color: #2f8f6b; } .t3 { color: #8a63d2; }
.t4 { color: #c0396f; } .t5 { color: #2f7fd0; } .t6 { color: #a3851a; }
.t7, .t8, .t9 { color: var(--muted); }
line.spread { stroke: var(--ink); stroke-width: 1.2; opacity: .75; }
.note + .legend { margin-top: 10px; }
.prefixes { display: grid; grid-template-columns: repeat(auto-fit, minmax(430px, 1fr)); gap: 14px;
  margin: 14px 0 0; }
.prefixes .card { margin: 0; padding: 14px 16px; }
.prefixes h3 { font-weight: 500; font-size: 13px; color: var(--muted); margin-bottom: 6px; }
pre { margin: 10px 0 0; font-size: 13px; line-height: 1.45; }
rect.outline { fill: none; stroke: var(--ink); stroke-width: 2; }

ol { margin: 14px 0 0; padding: 0; list-style: none; display: grid; gap: 8px; }
ol li { display: grid; grid-template-columns: 84px 1fr; max-width: 92ch; }
.mistakes { display: grid; grid-template-columns: repeat(auto-fit, minmax(280px, 1fr)); gap: 14px;
  margin: 14px 0 0; }
.mistakes .card { margin: 0; display: flex; flex-direction: column; gap: 8px; }
.mistakes p { font-size: 14px; color: var(--muted); }
.mistakes .tv { font-size: 20px; line-height: 1.3; font-weight: 650; }
.mistakes .wrong { color: var(--wrong); }
.mistakes svg { margin-top: auto; max-width: 380px; }

table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; text-align: right; white-space: nowrap; }
thead th { color: var(--muted); font-weight: 500; white-space: normal; vertical-align: bottom; }
th:first-child { text-align: left; padding-left: 0; }
tbody tr, tfoot tr { border-top: 1px solid var(--line); }
tbody th { white-space: normal; overflow-wrap: anywhere; min-width: 90px; }
tfoot { font-weight: 650; }
tbody th.group { padding-top: 18px; color: var(--muted); }
tbody tr.lossy td:nth-child(-n+3) { color: var(--wrong); }
"""

# Pattern fills need an element to live in; every figure on the page refers to these two.
HATCHES = """<svg width="0" height="0" style="position:absolute;width:0" aria-hidden="true"><defs>
<pattern id="grey" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<rect width="2" height="6" style="fill:var(--rejected)"/></pattern>
<pattern id="red" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<rect width="2" height="6" style="fill:var(--wrong)"/></pattern>
</defs></svg>"""


def document(title: str, body: str) -> str:
    """The whole page; `body` is HTML, the title text."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
{HATCHES}
<main>
<h1>{escape(title)}</h1>
{body}
</main>
</body>
</html>
"""


def legend(entries: dict[str, str]) -> str:
    """Class of a bar → what it stands for."""
    items = "".join(f'<li><i class="{kind}"></i>{text}</li>' for kind, text in entries.items())
    return f'<ul class="legend">{items}</ul>'
