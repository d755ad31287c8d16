"""Style sheet and script of the pages that reldp writes: light, dark, phone and print, and no resource from elsewhere.

The script shows what a line of a chart says under the pointer, and opens or closes all folded parts. Everything on a
page can be read without it. A policy in the page's head allows this script, by its hash, and this style, and nothing
that is loaded.

Private to the package: `STYLE`, `SCRIPT`, `POLICY`.

>>> "http" in STYLE + SCRIPT, "sha256-" in POLICY
(False, True)
"""

import base64
import hashlib

__all__ = ["POLICY", "SCRIPT", "STYLE"]

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fdfdfc; --ink: #1b1f24; --soft: #57606a; --rule: #d9dde2; --band: #f3f5f7;
  --main: #1f5fa8; --area: #1f5fa81a; --other: #9a5b00; --bad: #b3261e;
  --warn-band: #fff6e5; --warn-rule: #b26a00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --ink: #e7eaee; --soft: #a3acb7; --rule: #343a42; --band: #1d2127;
    --main: #86b7f5; --area: #86b7f526; --other: #e3a64b; --bad: #ff8a80;
    --warn-band: #2b2415; --warn-rule: #e3a64b;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif;
  font-variant-numeric: tabular-nums; hanging-punctuation: first;
}
header, main, footer { max-width: 46rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 3rem; } footer { padding-bottom: 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; font-weight: 650; letter-spacing: -0.015em; margin: 0 0 0.35rem; }
h2 { font-size: 1.3rem; line-height: 1.3; font-weight: 650; letter-spacing: -0.01em; margin: 3.25rem 0 0.5rem; }
h3 { font-size: 1rem; line-height: 1.4; font-weight: 650; margin: 2rem 0 0.25rem; }
p, ul, ol { margin: 0.5rem 0 0.9rem; } li { margin: 0.3rem 0; } ul, ol { padding-left: 1.2rem; }
p, li, figcaption { max-width: 40rem; text-wrap: pretty; } h1, h2, h3 { text-wrap: balance; }
.lead { color: var(--soft); margin: 0; }
a { color: var(--main); text-underline-offset: 0.15em; }
nav { margin: 1.5rem 0 0; font-size: 0.92rem; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: 0.2rem 1.1rem; margin: 0; padding: 0; }
nav li { margin: 0; }
nav button { font: inherit; color: var(--main); background: none; border: 0; padding: 0; cursor: pointer;
  text-decoration: underline; text-underline-offset: 0.15em; }
:focus-visible { outline: 2px solid var(--main); outline-offset: 2px; }
.guarantee { font-size: 1.12rem; line-height: 1.5; max-width: none; margin: 1.75rem 0 0; padding: 1rem 1.2rem;
  border-left: 4px solid var(--main); background: var(--band); }
.warning { border-left-color: var(--warn-rule); background: var(--warn-band); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.5rem, 1fr)); gap: 1rem 1.5rem;
  margin: 1.5rem 0 0; }
.figures div { border-top: 1px solid var(--rule); padding-top: 0.5rem; }
.figures dt { font-size: 0.82rem; color: var(--soft); }
.figures dd { margin: 0; font-size: 1.28rem; line-height: 1.25; font-weight: 600; letter-spacing: -0.01em;
  overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; margin: 0.75rem 0 1.25rem; }
caption { text-align: left; font-size: 0.86rem; color: var(--soft); padding-bottom: 0.35rem; }
th, td { text-align: left; vertical-align: top; padding: 0.38rem 1rem 0.38rem 0; border-bottom: 1px solid var(--rule);
  overflow-wrap: anywhere; font-weight: 400; }
th:last-child, td:last-child { padding-right: 0; }
thead th { color: var(--soft); font-size: 0.82rem; vertical-align: bottom; line-height: 1.35; }
tbody th { color: var(--soft); width: 13rem; } .numbers tbody th { color: inherit; width: auto; }
.numbers th:not(:first-child), .numbers td { text-align: right; }
.numbers { width: auto; min-width: min(100%, 24rem); } .pair .numbers { width: 100%; min-width: 0; }
.numbers th, .numbers td { padding-right: 1.75rem; overflow-wrap: normal; }
.numbers .own > * { font-weight: 650; }
figure { margin: 1.25rem 0 0.5rem; position: relative; }
figcaption { font-size: 0.88rem; color: var(--soft); margin-top: 0.3rem; }
.pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 0 2rem; }
svg { display: block; width: 100%; height: auto; font-size: 12px; overflow: visible; }
svg text { fill: var(--soft); } svg .note { fill: var(--ink); } svg .row { fill: var(--ink); }
svg .note.main { fill: var(--main); font-weight: 600; }
svg .grid { stroke: var(--rule); stroke-width: 1; } svg .tick { stroke: var(--soft); }
svg .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }
svg .line.main { stroke: var(--main); }
svg .line.soft { stroke: var(--soft); stroke-dasharray: 5 5; stroke-width: 1.5; }
svg .area { fill: var(--area); } svg .dot { stroke: var(--paper); stroke-width: 1.5; }
svg .dot.main { fill: var(--main); } svg .dot.other { fill: var(--other); } svg .dot.bad { fill: var(--bad); }
svg .interval { stroke-width: 3; stroke-linecap: round; opacity: 0.55; }
svg .interval.main { stroke: var(--main); } svg .interval.other { stroke: var(--other); }
svg .limit { stroke: var(--ink); stroke-width: 3; }
svg .bar { fill: var(--main); }
.reading { position: absolute; pointer-events: none; background: var(--ink); color: var(--paper); font-size: 0.8rem;
  line-height: 1.35; padding: 0.25rem 0.55rem; border-radius: 4px; max-width: 15rem;
  transform: translate(-50%, -130%); }
details { border-top: 1px solid var(--rule); padding: 0.55rem 0; } details + details { margin-top: 0; }
summary { cursor: pointer; color: var(--main); font-weight: 550; }
.sensitive { border: 1px dashed var(--warn-rule); background: var(--warn-band); border-radius: 6px;
  padding: 0.4rem 1.1rem; margin: 1rem 0; }
.sensitive h3 { margin-top: 0.5rem; } .sensitive > details { border-top: 0; } .sensitive summary { color: inherit; }
.mark { display: inline-block; font-size: 0.82rem; font-weight: 600; color: var(--ink); background: var(--warn-band);
  border: 1px dashed var(--warn-rule); border-radius: 4px; padding: 0.05rem 0.5rem; }
code { font: 0.9em ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; overflow-wrap: anywhere; }
.lines { display: grid; grid-template-columns: 1fr 1fr 9rem; gap: 2.6rem 1.5rem; margin-top: 2.6rem; }
.lines div { border-top: 1px solid var(--ink); padding-top: 0.25rem; font-size: 0.82rem; color: var(--soft); }
@media (max-width: 34rem) {
  header { padding-top: 1.75rem; } h2 { margin-top: 2.5rem; }
  .pair { grid-template-columns: minmax(0, 1fr); }
  tbody th { width: 40%; } svg { font-size: 12px; } svg.wide, .wide svg { font-size: 17px; }
  th, td, .numbers th, .numbers td { padding-right: 0.45rem; }
  .numbers { width: 100%; font-size: 0.8rem; } .lines { grid-template-columns: 1fr; }
}
@page { size: auto; margin: 17mm 16mm; }
@media print {
  :root { --paper: #fff; --ink: #000; --soft: #444; --rule: #c4c8cd; --band: #f3f5f7; --main: #1f5fa8;
    --area: #1f5fa81a; --other: #9a5b00; --bad: #b3261e; --warn-band: #fff; --warn-rule: #b26a00; }
  html { font-size: 9.6pt; } body { line-height: 1.42; } th, td { padding-top: 0.24rem; padding-bottom: 0.24rem; }
  header, main, footer { max-width: none; padding: 0; }
  nav, .reading { display: none; } h1 { font-size: 18pt; } h2 { font-size: 13pt; margin-top: 1.6rem; }
  h2, h3, caption, figcaption { break-after: avoid; } figure, tr, .guarantee, .figures { break-inside: avoid; }
  figure { max-width: 36rem; } .pair figure { max-width: none; } a { color: inherit; text-decoration: none; }
  details:not([open]) { display: none; } footer { padding-bottom: 0; }
  html:has(.form) { font-size: 8.6pt; } .form { line-height: 1.35; } .form p, .form li { max-width: none; }
  .form h2 { margin-top: 0.9rem; } .form th, .form td { padding-top: 0.2rem;
    padding-bottom: 0.2rem; } .form p, .form ul { margin: 0.3rem 0; } .form li { margin: 0.12rem 0; }
  .form .guarantee { margin-top: 0.8rem; padding: 0.6rem 0.9rem; }
}
""".strip()

SCRIPT = """
document.querySelectorAll('figure').forEach(function (figure) {
  var line = figure.querySelector('polyline[data-words]');
  if (!line) return;
  var words = line.dataset.words.split('|'), svg = line.ownerSVGElement, box = document.createElement('div');
  box.className = 'reading'; box.hidden = true; figure.appendChild(box);
  svg.addEventListener('pointermove', function (event) {
    var area = svg.getBoundingClientRect(), scale = area.width / svg.viewBox.baseVal.width;
    var at = (event.clientX - area.left) / scale, best = 0;
    for (var i = 1; i < line.points.length; i++)
      if (Math.abs(line.points[i].x - at) < Math.abs(line.points[best].x - at)) best = i;
    var point = line.points[best], half = Math.min(120, area.width / 2);
    box.textContent = words[best]; box.hidden = false;
    box.style.left = Math.min(Math.max(point.x * scale, half), area.width - half) + 'px';
    box.style.top = Math.max(point.y * scale, 40) + 'px';
  });
  svg.addEventListener('pointerleave', function () { box.hidden = true; });
});
var parts = document.querySelectorAll('details'), list = document.querySelector('nav ul');
if (parts.length && list) {
  var item = document.createElement('li'), button = document.createElement('button'), open = false;
  button.type = 'button'; button.textContent = 'Open all details';
  button.addEventListener('click', function () {
    open = !open;
    parts.forEach(function (part) { part.open = open; });
    button.textContent = open ? 'Close all details' : 'Open all details';
  });
  item.appendChild(button); list.appendChild(item);
}
""".strip()

_HASH = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'"
