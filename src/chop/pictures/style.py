"""The look of the page: light and dark, phone and desk, screen and paper."""

from __future__ import annotations

CSS = """
:root { color-scheme: light dark; --indent: 14px; --paper: #ffffff; --ink: #1d2127; --quiet: #59616d;
  --rim: #d6dae0; --band: #f3f5f8; --warn: #a11d00; }
@media screen and (prefers-color-scheme: dark) {
  :root { --paper: #16191d; --ink: #e6e9ee; --quiet: #a3acb9; --rim: #363c45; --band: #1f242a;
    --warn: #ff9a7d; }
  .plot { filter: invert(0.91) hue-rotate(180deg); }
}
@media (max-width: 600px) { :root { --indent: 8px; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, "DejaVu Sans", Arial, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 20px 16px 48px; }
header p { margin: 0; color: var(--quiet); }
h1 { margin: 0 0 16px; font-size: 1.25rem; line-height: 1.35; overflow-wrap: anywhere; }
h2 { margin: 32px 0 12px; font-size: 1.1rem; }
code { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 0.92em; }
dl { display: flex; flex-wrap: wrap; gap: 8px 28px; margin: 0; padding: 12px 14px; background: var(--band);
  border-radius: 6px; }
dt { color: var(--quiet); font-size: 0.82rem; }
dd { margin: 0; font-variant-numeric: tabular-nums; }
.warning { color: var(--warn); font-weight: 600; margin: 12px 0 0; }
.scroll { overflow-x: auto; border: 1px solid var(--rim); border-radius: 6px; }
.scroll svg { display: block; max-width: none; margin: 0 auto; }
table { width: 100%; border-collapse: collapse; font-size: 0.9rem; }
th { text-align: left; color: var(--quiet); font-weight: 600; }
th, td { padding: 5px 10px 5px 0; border-bottom: 1px solid var(--rim); vertical-align: top;
  overflow-wrap: anywhere; }
td:first-child { width: 42%; }
tr.again { color: var(--quiet); }
tr.answer td:first-child { font-weight: 600; }
.key { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 22px; margin: 0 0 14px; padding: 0;
  font-size: 0.85rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 340px), 1fr)); gap: 18px; }
figure { margin: 0; min-width: 0; display: flex; flex-direction: column; justify-content: space-between;
  break-inside: avoid; }
figcaption { font-size: 0.85rem; line-height: 1.35; overflow-wrap: anywhere; }
figcaption span { display: block; color: var(--quiet); font-size: 0.8rem; }
img { display: block; width: 100%; height: auto; margin-top: 6px; }
@media print {
  main { max-width: none; padding: 0; }
  .scroll { overflow: visible; border: 0; }
  .scroll svg { max-width: 100%; height: auto; }
  tr { break-inside: avoid; }
  h2 { break-after: avoid; }
  .panels { grid-template-columns: 1fr 1fr; }
}
""" + "".join(f".depth{i} {{ padding-left: calc({i} * var(--indent)); }}\n" for i in range(1, 9))
