#!/usr/bin/env python3
"""take_pictures.py ATLAS.html REPORT.html FOLDER: the pictures of README and guide, cut out of the two pages."""

import pathlib
import sys

from browser import Browser

# Figures of the pages that README and guide show, two a row.
ATLAS = {
    "sinusoidal": ["sinusoidal-map", "sinusoidal-curves"],
    "rope": ["rope-decay", "rope-similarity"],
    "wavelengths": ["rope-frequencies", "rope-wavelengths"],
    "scalings": ["scaling-ratios", "scaling-wavelengths"],
    "bias": ["alibi-lines", "t5-buckets"],
}
# attention-N: the maps of the N-th encoding of the default list: none, rope and w2-rope are 0, 3 and 8.
REPORT = {
    "report": ["score-by-length", "score-by-position"],
    "order": ["attention-0", "attention-3"],
    "gaussians": ["attention-3", "attention-8"],
}

# Only these, in this order.
SHOW = """
(ids => {
  const row = document.createElement('div');
  row.style = 'display: grid; grid-template-columns: 1fr 1fr; gap: 16px; padding: 12px; width: 1040px';
  row.append(...ids.map(id => document.getElementById(id)));
  row.querySelectorAll('details').forEach(details => details.remove());
  // Of the maps of four heads a layer, those of two.
  row.querySelectorAll('.maps > :nth-child(4n), .maps > :nth-child(4n + 3)').forEach(map => map.remove());
  row.querySelectorAll('figure').forEach(figure => { figure.style.margin = 0 });
  document.body.replaceChildren(row);
  document.body.style = 'margin: 0; max-width: none; padding: 0';
  const box = row.getBoundingClientRect();
  return {x: box.x, y: box.y, width: box.width, height: box.height};
})
"""


def take(browser, page, pictures, folder):
    for name, figures in pictures.items():
        browser.open(page.resolve().as_uri())
        box = browser.evaluate(f"{SHOW}({figures})")
        browser.screenshot(folder / f"{name}.png", clip={**box, "scale": 1})


def main():
    atlas, report, folder = map(pathlib.Path, sys.argv[1:])
    browser = Browser()
    try:
        browser.set_window(1064, 900, "light")
        take(browser, atlas, ATLAS, folder)
        take(browser, report, REPORT, folder)
    finally:
        browser.close()


if __name__ == "__main__":
    main()
