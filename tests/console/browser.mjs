// Chromium, and pages that note everything that a console must not do.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

// The packages are the console's own.
const require = createRequire(new URL("../../console/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const VIEWS = {
  light: { colorScheme: "light", viewport: { width: 1280, height: 820 } },
  dark: { colorScheme: "dark", viewport: { width: 1280, height: 820 } },
  phone: { colorScheme: "light", viewport: { width: 390, height: 844 } },
};
/** Rules of WCAG 2.2 at level A and AA. */
const RULES = { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] };

export async function launch() {
  const executablePath = process.env.BELLJAR_CHROMIUM;
  if (!executablePath) throw new Error("there is no Chromium; name one with BELLJAR_CHROMIUM");
  const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
  return chromium.launch({ executablePath, args });
}

/** A page with its faults: messages, errors, dialogs, and requests to another origin. */
export async function open(browser, origin, view = VIEWS.light) {
  const context = await browser.newContext({ ...view, locale: "en-GB", acceptDownloads: true });
  const page = await context.newPage();
  const faults = [];
  /** Status codes that a journey causes on purpose. The browser notes each. */
  const expected = new Set();
  page.on("console", (message) => {
    const status = /status of (\d+)/.exec(message.text())?.[1];
    if (!status || !expected.has(Number(status))) faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(origin) && !/^(data|blob):/.test(url)) faults.push(`request: ${url}`);
  });
  const go = (path) => page.goto(`${origin}/console${path}`);
  return { page, context, faults, expected, go };
}

/** Logs a context in before its first page, as the log-in form does. */
export const logIn = (context, key) => context.addInitScript((value) => sessionStorage.setItem("belljar.key", value), key);

/** Barriers that axe finds in the page as it is. */
export async function findBarriers(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate((rules) => globalThis.axe.run(document, rules), RULES);
  return violations.map((it) => `axe ${it.id} (${it.impact}): ${it.help}: ${it.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
}

/** Pixels by which the page is wider than the screen. */
export const excess = (page) =>
  page.evaluate(() => {
    const main = document.getElementById("main");
    const inside = main ? main.scrollWidth - main.clientWidth : 0;
    return Math.max(document.documentElement.scrollWidth - window.innerWidth, inside);
  });
