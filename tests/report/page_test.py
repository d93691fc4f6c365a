#!/usr/bin/env python3
"""page_test.py FOLDER PAGE.html...: each page in headless Chromium, with screenshots and a PDF left in FOLDER.

In light and dark, at the width of a desktop and of a phone: nothing is fetched, nothing is complained about, every
picture has a size, no label is cut or lies on another, the page does not scroll sideways, lines stand out from their
background. Chromium is driven through its DevTools protocol over a pipe; needs nothing but Python and Chromium.
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

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


class Browser:
    """Chromium, spoken to over two pipes: messages are JSON, each ended by a zero byte."""

    def __init__(self):
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if not program:
            sys.exit("page_test.py: no chromium in the path")
        self.profile = tempfile.TemporaryDirectory(prefix="page-test-", ignore_cleanup_errors=True)
        command_read, self.commands = os.pipe()
        self.answers, answer_write = os.pipe()
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{command_read} 4>&{answer_write}', "sh", program, "--headless=new",
             "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-extensions",
             "--disable-background-networking", "--no-first-run", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile.name}"],
            pass_fds=(command_read, answer_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(command_read)
        os.close(answer_write)
        self.unread, self.last_id, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")
        self.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)

    def message(self):
        while b"\0" not in self.unread:
            piece = os.read(self.answers, 1 << 20)
            if not piece:
                sys.exit("page_test.py: chromium ended")
            self.unread += piece
        text, _, self.unread = self.unread.partition(b"\0")
        return json.loads(text)

    def call(self, method, **parameters):
        self.last_id += 1
        request = {"id": self.last_id, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.commands, data):]
        while True:
            answer = self.message()
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def open(self, address):
        self.events.clear()
        self.call("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())
        self.evaluate("document.fonts.ready.then(() => 1)")

    def complaints(self):
        """What was fetched beside the page itself, or written to the console, since it was opened."""
        found = []
        for event in self.events:
            what = event.get("params", {})
            if event.get("method") == "Network.requestWillBeSent":
                address = what["request"]["url"]
                if not address.startswith("data:") and what.get("type") != "Document":
                    found.append(f"fetches {address[:100]}")
            elif event.get("method") == "Log.entryAdded":
                found.append(f"console: {what['entry']['text']}")
            elif event.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
                found.append(f"console: {json.dumps(what)[:200]}")
        return found

    def set_window(self, width, height, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, file):
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(picture["data"]))

    def pdf(self, file):
        file.write_bytes(base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"]))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(timeout=60)
        finally:
            self.process.kill()
            self.process.wait()
            self.profile.cleanup()


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
