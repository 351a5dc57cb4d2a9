"""Drives headless Chromium over a pipe, by the DevTools protocol (https://chromedevtools.github.io/devtools-protocol)."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

TIMEOUT_S = 60.0  # a busy machine may take long to draw
POLL_S = 0.05
OPTIONS = [
    "--headless",
    "--no-sandbox",  # which root cannot have
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # small in containers
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--force-color-profile=srgb",
]

# Texts with less contrast to what is behind them than WCAG 2.2 asks for (4.5:1), as the browser computes colours.
CONTRASTS = """(() => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (rgb) => {
    const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.slice(0, 3).map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const colour = rgba(getComputedStyle(e).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const hasText = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  const elements = [...document.querySelectorAll("body *")];
  const shown = elements.filter((e) => hasText(e) && e.checkVisibility() && !e.disabled);
  return shown.flatMap((e) => {
    const [one, other] = [light(rgba(getComputedStyle(e).color)), light(behind(e))].sort((a, b) => b - a);
    const contrast = (one + 0.05) / (other + 0.05);
    return contrast < 4.5 ? [`${e.tagName} ${e.textContent.slice(0, 30)}: ${contrast.toFixed(2)}`] : [];
  });
})()"""


def chromium() -> str:
    """The browser. Fail in CI where there is none: a check that was not made must not pass. Elsewhere skip the test."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("there is no Chromium; `apt install chromium` brings it")
    return found


class Browser:
    """A running Chromium: commands go in by one pipe, answers and events come out of another, NUL between them."""

    def __init__(self, folder: Path) -> None:
        command, self._commands = os.pipe()
        self._answers, answer = os.pipe()
        # It reads from descriptor 3 and writes to 4.
        shell = ["bash", "-c", f'exec "$0" "$@" 3<&{command} 4>&{answer}']
        self.process = subprocess.Popen(
            [*shell, chromium(), *OPTIONS, f"--user-data-dir={folder}"],
            pass_fds=(command, answer),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command)
        os.close(answer)
        self._pending = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def send(self, method: str, session: str | None = None, **params: Any) -> Any:
        """The result of a command; events that come before it are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            assert select.select([self._answers], [], [], TIMEOUT_S)[0], "the browser is silent"
            part = os.read(self._answers, 1 << 20)
            assert part, "the browser ended"
            self._pending += part
        message, _, self._pending = self._pending.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        return parsed

    def close_tabs(self) -> None:
        """Close every tab, with its storage, and forget its events."""
        for context in self.send("Target.getBrowserContexts")["browserContextIds"]:
            self.send("Target.disposeBrowserContext", browserContextId=context)
        self.events.clear()

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        os.close(self._commands)
        os.close(self._answers)


class Page:
    """A tab of its own, with storage of its own."""

    def __init__(self, browser: Browser, *, language: str = "en-US", width: int = 1280, height: int = 900) -> None:
        self._browser = browser
        context = browser.send("Target.createBrowserContext")["browserContextId"]
        target = browser.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        self._session = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        agent = browser.send("Browser.getVersion")["userAgent"]
        self.send("Emulation.setUserAgentOverride", userAgent=agent, acceptLanguage=language)
        self.resize(width, height)

    def send(self, method: str, **params: Any) -> Any:
        """The result of a command to this tab."""
        return self._browser.send(method, self._session, **params)

    def resize(self, width: int, height: int, *, scale: float = 1) -> None:
        """Give the window a size in CSS pixels."""
        is_phone = width < 600
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=is_phone
        )

    def colours(self, scheme: str) -> None:
        """Prefer light or dark."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url: str) -> None:
        """Go to an address, and wait until the page has started."""
        self.send("Page.navigate", url=url)
        self.wait_for("document.documentElement?.dataset.ready === ''")

    def value(self, expression: str) -> Any:
        """What an expression gives, its promise awaited."""
        outcome = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in outcome, (expression, outcome["exceptionDetails"])
        return outcome["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until an expression is true."""
        end_s = time.monotonic() + TIMEOUT_S
        while not self.value(f"Boolean({expression})"):
            assert time.monotonic() < end_s, f"never true: {expression}\n{self.value('document.body?.innerText')}"
            time.sleep(POLL_S)

    def click(self, selector: str) -> None:
        """Click in the middle of an element, as a mouse does."""
        middle = "e.scrollIntoView({block: 'center'}), ((r) => [r.x + r.width / 2, r.y + r.height / 2])"
        x, y = self.value(
            f"(e => ({middle}(e.getBoundingClientRect())))(document.querySelector({json.dumps(selector)}))"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, text: str, selector: str | None = None) -> None:
        """Put text where the focus is, or into a field in place of what it holds."""
        if selector is not None:
            self.value(f"(e => {{ e.focus(); e.select() }})(document.querySelector({json.dumps(selector)}))")
        self.send("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press and release a key."""
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        code = {"Enter": 13, "Tab": 9, "Home": 36, "ArrowDown": 40}.get(key, 0)
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def choose_file(self, selector: str, path: Path) -> None:
        """Choose a file, as in the dialog of the browser."""
        root = self.send("DOM.getDocument")["root"]["nodeId"]
        node = self.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    def text(self, selector: str) -> str:
        """What an element shows."""
        found: str = self.value(f"document.querySelector({json.dumps(selector)}).innerText")
        return found

    def faint_texts(self) -> list[str]:
        """The shown texts that are hard to read, each with its contrast."""
        found: list[str] = self.value(CONTRASTS)
        return found

    def screenshot(self, path: Path) -> None:
        """What the window shows, as PNG."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))

    def complaints(self) -> list[str]:
        """Errors of scripts, and what the browser refused or could not load, so far."""
        self.value("0")  # events up to here have come
        mine = [event for event in self._browser.events if event.get("sessionId") == self._session]
        logged = [event["params"]["entry"] for event in mine if event["method"] == "Log.entryAdded"]
        thrown = [event["params"] for event in mine if event["method"] == "Runtime.exceptionThrown"]
        bad = [f"{entry['text']} {entry.get('url', '')}" for entry in logged if entry["level"] in {"error", "warning"}]
        return bad + [str(one["exceptionDetails"]) for one in thrown]

    def bodies(self, end: str) -> list[dict[str, Any]]:
        """The JSON of the requests to the paths with this end, so far."""
        self.value("0")
        mine = [event for event in self._browser.events if event.get("sessionId") == self._session]
        requests = [event["params"]["request"] for event in mine if event["method"] == "Network.requestWillBeSent"]
        wanted = [request for request in requests if request["url"].endswith(end) and "postData" in request]
        return [json.loads(request["postData"]) for request in wanted]

    def hosts(self) -> set[str]:
        """The origins of all that was asked for."""
        mine = [event for event in self._browser.events if event.get("sessionId") == self._session]
        urls = [event["params"]["request"]["url"] for event in mine if event["method"] == "Network.requestWillBeSent"]
        return {"/".join(url.split("/")[:3]) for url in urls}
