"""A headless Chromium for the tests of pages, one for each module; without one they are skipped."""

import base64
import os
import shutil
import time
from pathlib import Path

import pytest

OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --disable-dev-shm-usage"
)
PATIENCE = 20.0


class Browser:
    """A browser that remembers where screenshots go."""

    def __init__(self, driver, artifacts):
        self.driver, self.artifacts = driver, artifacts

    def open(self, path, width=1200, height=900, dark=False):
        """Show a page, a file or an address, in a window of this width; old complaints go."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])
        self.driver.get_log("browser")
        self.driver.get(path if str(path).startswith("http://") else Path(path).as_uri())

    def command(self, name, **parameters):
        return self.driver.execute_cdp_cmd(name, parameters)

    def picture(self):
        """The whole page as PNG; a driver that loses the page for a moment is asked again."""
        exceptions = pytest.importorskip("selenium.common.exceptions")
        whole = {"format": "png", "captureBeyondViewport": True}
        for _ in range(4):
            try:
                return self.command("Page.captureScreenshot", **whole)
            except exceptions.WebDriverException:
                time.sleep(0.5)
                self.driver.refresh()
        return self.command("Page.captureScreenshot", **whole)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def wait(self, script):
        """Wait until a script returns something true."""
        end = time.monotonic() + PATIENCE
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.02)
        return value

    def keys(self, selector, *keys):
        element = self.find(selector)
        self.run("arguments[0].focus({ preventScroll: true })", element)
        element.send_keys(*keys)

    def choose(self, identifier, value):
        """Choose an option of a select element."""
        script = """const select = document.getElementById(arguments[0]);
        select.value = arguments[1];
        select.dispatchEvent(new Event("change"));"""
        self.run(script, identifier, str(value))

    def choose_named(self, name, value):
        """Choose an option of a select element that has a name."""
        script = """const select = document.querySelector(`[name="${arguments[0]}"]`);
        select.value = arguments[1];
        select.dispatchEvent(new Event("input", { bubbles: true }));"""
        self.run(script, name, str(value))

    def hover(self, selector, across, down):
        """Move the pointer to a place given as shares of the element's width and height."""
        x, y = self.run(
            """const found = document.querySelector(arguments[0]);
            found.scrollIntoView({ block: "center", behavior: "instant" });
            const box = found.getBoundingClientRect();
            return [box.left + arguments[1] * box.width, box.top + arguments[2] * box.height];""",
            *(selector, across, down),
        )
        self.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, name):
        """Keep a picture of the whole page."""
        (self.artifacts / f"{name}.png").write_bytes(base64.b64decode(self.picture()["data"]))

    def complaints(self):
        """What the console says, refused resources and broken policies included."""
        return self.driver.get_log("browser")

    def clipped(self):
        """Texts that are wider than their box, where nothing lets them scroll."""
        return self.run(
            """return [...document.querySelectorAll("main *, header *")].filter((each) => {
              const kind = getComputedStyle(each).overflowX;
              return each.clientWidth > 0 && each.scrollWidth > each.clientWidth + 1
                && !each.closest(".scroll, pre, .hidden-text, svg") && kind !== "visible";
            }).map((each) => each.outerHTML.slice(0, 120))"""
        )

    def scrolls_sideways(self):
        return self.run("return document.documentElement.scrollWidth > window.innerWidth")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for option in (*OPTIONS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    artifacts = Path(os.environ.get("DPCOV_TEST_ARTIFACTS") or tmp_path_factory.mktemp("pages"))
    artifacts.mkdir(parents=True, exist_ok=True)
    yield Browser(started, artifacts)
    started.quit()
