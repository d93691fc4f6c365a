#!/usr/bin/env python3
"""take_pictures.py ATLAS.html REPORT.html FOLDER: the pictures of README and guide, cut out of the two pages."""

import pathlib
import sys

from browser import Browser

# Elements of the atlas that the guide shows, side by side where there are two.
ATLAS = {
    "sinusoidal": ["sinusoidal-map", "sinusoidal-curves"],
    "rope": ["rope-decay", "rope-similarity"],
    "wavelengths": ["rope-frequencies", "rope-wavelengths"],
    "scalings": ["scaling-ratios", "scaling-wavelengths"],
    "bias": ["alibi-lines", "t5-buckets"],
}
REPORT_HEIGHT = 860  # its beginning: the ranking and the first charts

# Only these, in this order, in one row.
SHOW = """
(ids => {
  const row = document.createElement('div');
  row.style = 'display: grid; grid-template-columns: repeat(' + ids.length + ', 1fr); gap: 16px; padding: 12px; width: 1040px';
  row.append(...ids.map(id => document.getElementById(id)));
  row.querySelectorAll('details').forEach(details => details.remove());
  row.querySelectorAll('figure').forEach(figure => { figure.style.margin = 0 });
  document.body.replaceChildren(row);
  document.body.style = 'margin: 0; max-width: none; padding: 0';
  const box = row.getBoundingClientRect();
  return {x: box.x, y: box.y, width: box.width, height: box.height};
})
"""


def main():
    atlas, report, folder = map(pathlib.Path, sys.argv[1:])
    browser = Browser()
    try:
        browser.set_window(1064, REPORT_HEIGHT, "light")
        for name, figures in ATLAS.items():
            browser.open(atlas.resolve().as_uri())
            box = browser.evaluate(f"{SHOW}({figures})")
            browser.screenshot(folder / f"{name}.png", clip={**box, "scale": 1})
        browser.set_window(1100, REPORT_HEIGHT, "light")
        browser.open(report.resolve().as_uri())
        browser.screenshot(folder / "report.png", clip={"x": 0, "y": 0, "width": 1100, "height": REPORT_HEIGHT, "scale": 1})
    finally:
        browser.close()


if __name__ == "__main__":
    main()
