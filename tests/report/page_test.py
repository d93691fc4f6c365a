#!/usr/bin/env python3
"""page_test.py FOLDER PAGE.html...: each page in headless Chromium, with screenshots and a PDF left in FOLDER.

In light and dark, at the width of a desktop and of a phone: nothing is fetched, nothing is complained about, every
picture has a size, no label is cut or lies on another, the page does not scroll sideways, lines stand out from their
background.
"""

import pathlib
import sys

from browser import Browser

WIDTHS = {"desktop": 1280, "phone": 390}

# What is wrong with the page, as a list of sentences. Runs in the page, which has no script of its own.
FAULTS = """
(() => {
  const faults = [];
  const root = document.documentElement;
  if (document.scripts.length) faults.push('the page has a script');
  if (root.scrollWidth > root.clientWidth)
    faults.push(`the page is ${root.scrollWidth} wide in a window of ${root.clientWidth}`);
  const pictures = [...document.querySelectorAll('svg.chart, svg.heat')];
  if (pictures.length < 10) faults.push(`only ${pictures.length} pictures`);
  const name = picture => picture.getAttribute('aria-label');
  for (const element of document.querySelectorAll('svg, image, img, path.line, path.marker')) {
    const box = element.getBoundingClientRect();
    if (!(box.width + box.height > 0)) faults.push(`${element.tagName} ${element.getAttribute('class')} has no size`);
  }
  for (const image of document.querySelectorAll('img'))
    if (!image.complete || !image.naturalWidth) faults.push('an image is not shown');
  for (const table of document.querySelectorAll('table'))
    if (!table.rows.length) faults.push('a table has no rows');
  for (const picture of pictures) {
    const outer = picture.getBoundingClientRect();
    const texts = [...picture.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    texts.forEach(([text, box], i) => {
      if (box.left < outer.left - 1 || box.right > outer.right + 1 || box.top < outer.top - 1 || box.bottom > outer.bottom + 1)
        faults.push(`${name(picture)}: '${text}' is cut`);
      if (box.height < 10) faults.push(`${name(picture)}: '${text}' is ${box.height} high`);
      for (const [other, b] of texts.slice(i + 1))
        if (Math.min(box.right, b.right) - Math.max(box.left, b.left) > 0.5 &&
            Math.min(box.bottom, b.bottom) - Math.max(box.top, b.top) > 3)
          faults.push(`${name(picture)}: '${text}' lies on '${other}'`);
    });
    if (picture.matches('.chart') && !picture.querySelector('.series')) faults.push(`${name(picture)}: no series`);
  }
  const light = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const back = getComputedStyle(document.querySelector('figure')).backgroundColor;
  for (const line of document.querySelectorAll('.chart .line'))
    if (contrast(getComputedStyle(line).stroke, back) < 3) faults.push(`a line of ${getComputedStyle(line).stroke} on ${back} is faint`);
  for (const text of document.querySelectorAll('svg text'))
    if (contrast(getComputedStyle(text).fill, back) < 4.5) faults.push(`text of ${getComputedStyle(text).fill} on ${back} is faint`);
  return [...new Set(faults)];
})()
"""


def check(browser, page, folder):
    faults = []
    for device, width in WIDTHS.items():
        for scheme in ("light", "dark"):
            browser.set_window(width, 900, scheme)
            browser.open(page.resolve().as_uri())
            browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
            opened = browser.evaluate(FAULTS)
            browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = false })")
            found = browser.complaints() + browser.evaluate(FAULTS) + [f for f in opened if "wide in a window" in f]
            faults += [f"{page.name}, {device}, {scheme}: {fault}" for fault in dict.fromkeys(found)]
            browser.screenshot(folder / f"{page.stem}-{device}-{scheme}.png")
    browser.pdf(folder / f"{page.stem}.pdf")
    return faults


def main():
    folder, pages = pathlib.Path(sys.argv[1]), [pathlib.Path(name) for name in sys.argv[2:]]
    folder.mkdir(parents=True, exist_ok=True)
    browser = Browser()
    try:
        faults = [fault for page in pages for fault in check(browser, page, folder)]
    finally:
        browser.close()
    print("\n".join(faults) or f"{len(pages)} pages, no fault; screenshots in {folder}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
