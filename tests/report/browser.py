"""Headless Chromium, driven through its DevTools protocol over a pipe; needs nothing but Python and Chromium."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile


class Browser:
    """Chromium, spoken to over two pipes: messages are JSON, each ended by a zero byte."""

    def __init__(self):
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if not program:
            sys.exit("no chromium in the path")
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
                sys.exit("chromium ended")
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

    def screenshot(self, file, **options):
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, **options)
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
