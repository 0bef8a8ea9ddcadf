// Opens each page as a reader does, and looks for everything that a report must not do.

import { createServer } from "node:http";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [browser, place] = process.argv.slice(2);
const pages = ["sales", "exhausted", "hostile"];
const views = [
  { name: "light", colorScheme: "light", viewport: { width: 1280, height: 900 } },
  { name: "dark", colorScheme: "dark", viewport: { width: 1280, height: 900 } },
  { name: "phone", colorScheme: "light", viewport: { width: 390, height: 844 } },
];

// A control: a page that logs, asks and breaks its policy must be seen doing so.
const policy = "default-src 'none'; style-src 'none'";
const control = `<!DOCTYPE html><meta http-equiv="Content-Security-Policy" content="${policy}">
  <p style="color: red">x</p><img src="/other.png"><script>alert(1)</script>`;

const server = createServer((request, answer) => {
  const name = request.url.slice(1);
  if (name === "control") {
    answer.setHeader("content-type", "text/html").end(control);
  } else if (pages.includes(name)) {
    answer.setHeader("content-type", "text/html").end(readFileSync(join(place, `${name}.html`)));
  } else {
    answer.writeHead(404).end();
  }
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const origin = `http://127.0.0.1:${server.address().port}`;

const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
const chrome = await chromium.launch({ executablePath: browser, args });

// Everything that one page does, in one view.
async function look(name, view, shot) {
  const context = await chrome.newContext({ colorScheme: view.colorScheme, viewport: view.viewport });
  const page = await context.newPage();
  const found = [];
  page.on("console", (message) => found.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => found.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    found.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => {
    const url = request.url();
    if (url !== `${origin}/${name}` && !url.startsWith("data:image/") && !url.endsWith("/favicon.ico")) {
      found.push(`request: ${url}`);
    }
  });
  await page.goto(`${origin}/${name}`, { waitUntil: "load" });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  if (wide > 0) found.push(`wider than the screen by ${wide} pixels`);
  const broken = await page.evaluate(() =>
    [...document.images].filter((it) => !it.naturalWidth).map((it) => it.alt));
  found.push(...broken.map((alt) => `broken picture: ${alt}`));
  if (shot) writeFileSync(join(place, `${name}-${view.name}.png`), await page.screenshot({ fullPage: true }));
  if (shot && view.name === "light") {
    await page.emulateMedia({ media: "print" });
    writeFileSync(join(place, `${name}.pdf`), await page.pdf({ format: "A4" }));
  }
  await context.close();
  return found;
}

let failures = 0;
const seen = await look("control", views[0], false);
for (const kind of ["console:"]) {
  if (!seen.some((one) => one.startsWith(kind))) {
    failures += 1;
    console.error(`control: nothing was seen that begins with "${kind}": ${JSON.stringify(seen)}`);
  }
}
for (const name of pages) {
  for (const view of views) {
    const found = await look(name, view, true);
    failures += found.length;
    for (const one of found) console.error(`${name}, ${view.name}: ${one}`);
  }
}
await chrome.close();
server.close();
console.log(`${pages.length * views.length} views, ${failures} failures`);
process.exit(failures === 0 ? 0 : 1);
