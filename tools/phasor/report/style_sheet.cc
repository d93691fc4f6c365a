// The looks of a page. Charts take their colours from here by class: c0 .. c9 with d0 .. d3 (line_chart.cc).
//
// The ten colours have a contrast of at least 3 against their background, in light and in dark, and differ in lightness
// where the colour-blind would confuse their hue; dashes and markers tell them apart without any colour.
#include "report/page.h"

namespace phasor::report {

// Pictures are up to 560 units wide. On a phone and on paper they are drawn at about two thirds of that, so text grows.
const std::string_view kStyleSheet = R"css(
:root {
  color-scheme: light dark;
  --back: #ffffff; --card: #ffffff; --soft: #f4f6f8; --text: #1c2127; --quiet: #59636e; --rule: #d9dee4; --grid: #e8ecf0;
  --link: #0a5aa8; --tint: #2f9e8f;
  --c0: #0068b3; --c1: #d1500a; --c2: #00805a; --c3: #b8478f; --c4: #a97400;
  --c5: #3392d6; --c6: #4a525c; --c7: #66790f; --c8: #7d1d47; --c9: #5a44c0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #13171c; --card: #191e24; --soft: #20262d; --text: #e6eaee; --quiet: #a1abb6; --rule: #343c46; --grid: #2a323b;
    --link: #7cbcff; --tint: #2f9e8f;
    --c0: #4ea3ea; --c1: #ff8b4d; --c2: #35c394; --c3: #ee93cb; --c4: #e9bd45;
    --c5: #a5dbff; --c6: #c3cad2; --c7: #b5cb4f; --c8: #e0607f; --c9: #a99bff;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--back); color: var(--text); line-height: 1.5;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 2.5rem 1.5rem 2rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.4rem; line-height: 1.3; margin: 3rem 0 .5rem; }
h3 { font-size: 1.05rem; line-height: 1.35; margin: 0 0 .3rem; }
p { margin: 0 0 .8rem; max-width: 46rem; }
header p, .lead, figure p { color: var(--quiet); }
a { color: var(--link); }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; margin-top: 1.2rem; padding-bottom: 1rem;
  border-bottom: 1px solid var(--rule); }
nav a { text-decoration: none; }
nav a:hover { text-decoration: underline; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 32rem), 1fr)); gap: 0 1.5rem; margin-top: 1.2rem; }
figure { margin: 0 0 1.5rem; padding: 1.3rem 1.4rem 1rem; background: var(--card); border: 1px solid var(--rule); border-radius: 10px;
  min-width: 0; break-inside: avoid;
  display: grid; grid-template-columns: minmax(0, 1fr); grid-row: span 4; grid-template-rows: subgrid; row-gap: 0; }
figure p { font-size: .95rem; }
figure p:empty { margin: 0; }
svg.chart, svg.heat { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-size: 13px; fill: var(--quiet); font-family: inherit; font-variant-numeric: tabular-nums; }
svg text.middle { dominant-baseline: central; }
svg text.name { fill: var(--text); }
svg text.note { fill: var(--text); paint-order: stroke; stroke: var(--card); stroke-width: 4px; stroke-linejoin: round; }
.grid { stroke: var(--grid); }
.tick { stroke: var(--quiet); }
.mark { stroke: var(--text); stroke-width: 1.4; stroke-dasharray: 2 4; stroke-linecap: round; }
image, .bar { image-rendering: pixelated; }
.strip, .spot { fill: #fff; fill-opacity: 0; pointer-events: all; }
.strip:hover { fill-opacity: .25; }
.series .line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; stroke-linecap: butt; }
.series .marker { fill: var(--c); stroke: var(--card); stroke-width: 1.2; }
.series .band { fill: var(--c); fill-opacity: .13; stroke: none; }
.chart:has(.series:hover) .series:not(:hover) { opacity: .2; }
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); } .c4 { --c: var(--c4); }
.c5 { --c: var(--c5); } .c6 { --c: var(--c6); } .c7 { --c: var(--c7); } .c8 { --c: var(--c8); } .c9 { --c: var(--c9); }
.d1 .line { stroke-dasharray: 8 3; } .d2 .line { stroke-dasharray: 3 2.5; } .d3 .line { stroke-dasharray: 10 3 2 3; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; margin: .5rem 0 .2rem; font-size: .86rem; }
.item { display: inline-flex; align-items: center; gap: .45rem; font-variant-numeric: tabular-nums; }
.key { width: 34px; height: 14px; flex: none; }
.bar { width: 9rem; height: .8rem; border-radius: 2px; }
.maps { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .8rem .6rem; }
h4 { font-size: .9rem; font-weight: 600; margin: 0; }
details { margin-top: .6rem; border-top: 1px solid var(--rule); padding-top: .6rem; }
summary { cursor: pointer; color: var(--link); font-size: .9rem; }
.table { overflow-x: auto; margin-top: .6rem; max-width: 100%; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { padding: .32rem .7rem; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; color: var(--quiet); }
th:first-child, td:first-child { padding-left: 0; }
.number { text-align: right; }
.ranking table { font-size: .95rem; width: 100%; }
.ranking td, .ranking th { padding: .5rem .7rem; }
.ranking .table { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: .4rem 1rem; }
.ranking tbody tr:last-child td { border-bottom: none; }
.ranking .score { background: color-mix(in srgb, var(--tint) calc(var(--share) * 45%), transparent); }
.ranking .best { font-weight: 700; }
.ranking .none { color: var(--quiet); font-style: italic; white-space: normal; }
.notes { color: var(--quiet); font-size: .9rem; padding-left: 1.2rem; margin: .8rem 0 0; }
.spread, .trained { display: block; font-size: .78rem; font-weight: 400; color: var(--quiet); white-space: nowrap; }
.ranking .score .spread { color: inherit; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .35rem 1.6rem; margin: 1rem 0; }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--soft); border-radius: 8px; padding: .9rem 1.1rem; white-space: pre-wrap; overflow-wrap: anywhere;
  font-size: .88rem; }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--rule); color: var(--quiet); font-size: .88rem; }
@media (max-width: 600px) {
  main { padding: 1.4rem .9rem; }
  h1 { font-size: 1.6rem; }
  figure { padding: 1rem .8rem .8rem; border-radius: 8px; }
  svg text, .maps svg text { font-size: 18px; }
  .narrow text { font-size: 14px; }
  .spread { display: none; }
  .ranking table { font-size: .84rem; } .ranking td, .ranking th { padding: .45rem .35rem; }
  .ranking .table { padding: .3rem .5rem; }
  .series .line { stroke-width: 2.8; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dd { margin-bottom: .6rem; }
}
@media print {
  :root { --back: #fff; --card: #fff; --soft: #f4f6f8; --text: #000; --quiet: #444c55; --rule: #c8ced5; --grid: #e3e7eb;
    --c0: #0068b3; --c1: #d1500a; --c2: #00805a; --c3: #b8478f; --c4: #a97400;
    --c5: #3392d6; --c6: #4a525c; --c7: #66790f; --c8: #7d1d47; --c9: #5a44c0; }
  @page { margin: 14mm; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  body { font-size: 10pt; }
  nav, details { display: none; }
  h1 { font-size: 20pt; } h2 { font-size: 14pt; margin-top: 1.4rem; break-after: avoid; }
  .gallery { display: block; }  /* whose rows break between pages, those of a grid do not */
  figure { display: inline-block; vertical-align: top; width: 48.5%; margin: 0 .8% .6rem 0; padding: .6rem .7rem; }
  p { break-inside: avoid; } .lead { break-after: avoid; } .gallery { break-before: avoid; }
  figure p { font-size: 9pt; } h3 { font-size: 10.5pt; }
  svg text, .maps svg text { font-size: 17px; }
  .narrow text { font-size: 13px; }
  .legend { font-size: 8pt; gap: .1rem .7rem; }
  .bar { width: 6rem; }
  .spread, .trained { font-size: 6.5pt; }
  .series .line { stroke-width: 2.6; }
  .table { overflow: visible; }
  .ranking table { font-size: 8pt; } .ranking td, .ranking th { padding: .25rem .35rem; white-space: normal; }
}
)css";

}  // namespace phasor::report
