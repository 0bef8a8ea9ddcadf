// Journeys through the console in Chromium, on a server with a scripted model; axe on every screen.
//
// `just suites` builds the server. `node journeys.mjs [NAME…]` runs the journeys with these words in
// their names; `--shots DIR` keeps screenshots of every screen.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { VIEWS, excess, findBarriers, launch, logIn, open } from "./browser.mjs";
import { start } from "./stack.mjs";

const SALES = `region,month,units,revenue
North,2026-01,120,2400.00
South,2026-01,95,1805.00
West,2026-01,60,1500.00
North,2026-02,130,2600.00
South,2026-02,140,2660.00
West,2026-02,75,1875.00
`;
const FLOW = `name = "count"
[steps.numbers]
kind = "call"
call = { template = "python-data", script = "echo '[1,2]'" }
[steps.double]
kind = "call"
call = { template = "python-data", script = "echo $(( $(cat n) * 2 ))" }
for_each = "steps.numbers.value"
inputs = { n = "item" }
[outputs]
doubled = "steps.double.value"
`;

let stack;
let browser;

async function api(method, path, body) {
  const headers = { "x-api-key": stack.key, "content-type": "application/json" };
  const sent = typeof body === "string" || body === undefined ? body : JSON.stringify(body);
  const response = await fetch(`${stack.backend}/v1${path}`, { method, headers, body: sent });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

async function until(what, found) {
  for (let tries = 0; tries < 600; tries += 1) {
    const result = await found();
    if (result) return result;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`not within a minute: ${what}`);
}

const ask = (question, more = {}) => api("POST", "/runs", { question, ...more });
const ended = (run) => until(`the end of ${run}`, async () => (await api("GET", `/runs/${run}`)).end);

/** A run about sales that has ended, made once for all journeys. */
let sold;
async function soldRun() {
  sold ??= (async () => {
    const { sha256 } = await api("POST", "/data", SALES);
    const { id } = await ask("Which region has the highest revenue?", { data: [{ name: "sales.csv", sha256 }], budget: { turns: 10, nano_dollars: 500_000_000 } });
    assert.equal((await ended(id)).outcome, "answered");
    return id;
  })();
  return sold;
}

/** A page that is logged in. It must end without faults. */
async function logged(view, path, journey) {
  const it = await open(browser, stack.url, view);
  await logIn(it.context, stack.key);
  await it.go(path);
  await journey(it);
  assert.deepEqual(it.faults, []);
  await it.context.close();
}

const journeys = {
  async "a control: what breaks the policy is seen"() {
    const it = await open(browser, stack.url);
    await it.go("/");
    await it.page.evaluate(() => {
      document.body.append(Object.assign(document.createElement("script"), { text: "alert(1)" }));
      document.body.insertAdjacentHTML("beforeend", '<p style="color: #eee; background: white">pale</p><img src="http://192.0.2.1/x.png">');
    });
    await it.page.waitForTimeout(300);
    assert.ok(it.faults.some((fault) => fault.includes("Content Security Policy")), JSON.stringify(it.faults));
    await it.page.evaluate(() => document.body.lastChild.previousSibling.style.setProperty("color", "#eee"));
    assert.ok((await findBarriers(it.page)).some((one) => one.includes("color-contrast")));
    await it.context.close();
  },

  async "log in, and out"() {
    const it = await open(browser, stack.url);
    it.expected.add(401);
    await ask("scene-quick: of the first key");
    await it.go("/runs?state=paused");
    await it.page.getByLabel("API key").fill("e2b_0000000000000000000000000000000000000000");
    await it.page.getByRole("button", { name: "Log in" }).click();
    await it.page.getByRole("alert").getByText("Cannot log in").waitFor();
    assert.deepEqual(await findBarriers(it.page), []);
    await it.page.getByLabel("API key").fill(stack.key);
    await it.page.getByRole("button", { name: "Log in" }).click();
    await it.page.getByRole("heading", { name: "Runs" }).waitFor();
    await it.page.getByText("No run is paused").waitFor();
    assert.ok(it.page.url().endsWith("/console/runs?state=paused"), "the address stays");
    const kept = await it.page.evaluate(() => [JSON.stringify(localStorage), document.cookie, location.href].join());
    assert.ok(!kept.includes(stack.key), "the key is only in the session's storage");
    await it.page.getByRole("button", { name: "Log out" }).click();
    await it.page.getByLabel("API key").waitFor();
    assert.equal(await it.page.evaluate(() => sessionStorage.length), 0);
    await it.page.getByLabel("API key").fill(stack.otherKey);
    await it.page.getByRole("button", { name: "Log in" }).click();
    await it.page.getByRole("heading", { name: "Runs" }).waitFor();
    await it.go("/runs");
    await it.page.getByText("There are no runs yet").waitFor();
    assert.equal(await it.page.getByRole("link", { name: "scene-quick: of the first key" }).count(), 0);
    assert.deepEqual(it.faults, []);
    await it.context.close();
  },

  async "a run appears live, is watched and cancelled"() {
    await logged(VIEWS.light, "/runs", async ({ page }) => {
      await page.getByRole("link", { name: "New run", exact: true }).waitFor();
      const { id } = await ask("scene-slow: count to five, and wait");
      await page.getByRole("link", { name: "scene-slow: count to five, and wait" }).first().click();
      await page.waitForURL(`**/console/runs/${id}`);
      await page.getByText("First I count", { exact: false }).waitFor();
      assert.equal((await api("GET", `/runs/${id}`)).end, undefined, "words arrive while it runs");
      await page.getByRole("group", { name: "Output, as the model saw it" }).getByText("5").waitFor();
      await page.getByText("sleep 8").waitFor();
      await page.getByRole("button", { name: "Cancel…" }).click();
      assert.deepEqual(await findBarriers(page), []);
      await page.getByRole("button", { name: "Cancel the run" }).click();
      await page.locator(".run-head").getByText("cancelled").waitFor();
      await page.getByRole("button", { name: "Try again…" }).waitFor();
    });
  },

  async "pause, tell, step and resume"() {
    const { id } = await ask("scene-slow: and be steered");
    await logged(VIEWS.light, `/runs/${id}`, async ({ page }) => {
      await page.getByRole("button", { name: "Pause", exact: true }).click();
      await page.getByRole("button", { name: "Tell…" }).click();
      await page.getByLabel("Message").fill("Leave out zero.");
      await page.getByRole("button", { name: "Send" }).click();
      await page.getByText("You sent a message: Leave out zero.").waitFor();
      await page.locator(".run-head").getByText("paused").waitFor();
      await page.getByRole("button", { name: "Budget…" }).click();
      await page.getByRole("spinbutton", { name: "Turns" }).fill("40");
      await page.getByRole("button", { name: "Change", exact: true }).click();
      await page.getByRole("button", { name: "Resume" }).click();
      await page.getByText("of 40").first().waitFor();
      await api("POST", `/runs/${id}/cancel`);
      await page.locator(".run-head").getByText("cancelled").waitFor();
    });
  },

  async "a question is answered"() {
    const { id } = await ask("scene-asks", { questions: true });
    await logged(VIEWS.light, `/runs/${id}`, async ({ page }) => {
      const form = page.getByRole("form", { name: "Question of the model" });
      await form.getByText("Which currency are the revenues in?").waitFor();
      assert.deepEqual(await findBarriers(page), []);
      await form.getByLabel("Your answer").fill("Euros.");
      await form.getByRole("button", { name: "Answer" }).click();
      await page.getByRole("region", { name: "End" }).getByText("You said: Euros.").waitFor();
    });
  },

  async "turns, code, figures, files and the prompt of a run"() {
    const id = await soldRun();
    await logged(VIEWS.light, `/runs/${id}#turn-2`, async ({ page }) => {
      const turn = page.getByRole("article", { name: "Turn 2" });
      await turn.locator(".tok-keyword", { hasText: "import" }).first().waitFor();
      const picture = turn.getByRole("img", { name: "turn-2-figure-1.png" });
      await picture.waitFor();
      await until("the figure", () => picture.evaluate((it) => it.naturalWidth > 0));
      await turn.getByRole("button", { name: "Show files, connections and prompt" }).click();
      await turn.getByText("/home/user/revenue.csv").waitFor();
      await turn.getByText("/v1/messages").waitFor();
      await turn.getByText("Prompt", { exact: true }).click();
      await turn.getByRole("group", { name: "Prompt" }).getByText("Which region has the highest revenue?", { exact: false }).waitFor();
      assert.deepEqual(await findBarriers(page), []);
      const end = page.getByRole("region", { name: "End" });
      await end.scrollIntoViewIfNeeded();
      await end.getByRole("cell", { name: "5000.00" }).waitFor();
      const saved = page.waitForEvent("download");
      await end.getByRole("button", { name: "Download revenue.csv" }).click();
      assert.match(readFileSync(await (await saved).path(), "utf8"), /North,5000/);
      await page.reload();
      await page.getByRole("article", { name: "Turn 2" }).waitFor();
    });
  },

  async "a new run with a file"() {
    await logged(VIEWS.light, "/runs", async ({ page }) => {
      await page.getByRole("heading", { name: "Runs" }).waitFor();
      await page.keyboard.press("n");
      await page.getByRole("textbox", { name: "Question", exact: true }).fill("Which region sells most?");
      await page.getByLabel("Upload —").setInputFiles({ name: "sales.csv", mimeType: "text/csv", buffer: Buffer.from(SALES) });
      await page.getByLabel("Name of file 1").waitFor();
      await page.getByRole("spinbutton", { name: "Turns" }).fill("8");
      await page.getByRole("button", { name: "Start the run" }).click();
      await page.getByRole("region", { name: "End" }).getByText("answered").waitFor({ timeout: 60_000 });
      await page.getByText("of 8").first().waitFor();
    });
  },

  async "the list pages, and new runs do not move it"() {
    for (let at = 0; at < 70; at += 1) await ask(`scene-quick ${at}`);
    await logged(VIEWS.light, "/runs?q=scene-quick", async ({ page }) => {
      await page.getByRole("button", { name: "load more" }).click();
      await page.getByRole("link", { name: "scene-quick 69", exact: true }).waitFor();
      const main = page.locator("#main");
      await main.evaluate((it) => it.scrollTo(0, 900));
      await page.waitForTimeout(200);
      const seen = () => main.evaluate((it) => [...it.querySelectorAll("tbody a")].find((link) => link.getBoundingClientRect().top > 200)?.textContent);
      const before = await seen();
      await ask("scene-quick: the newest");
      await page.getByRole("button", { name: "1 new run" }).waitFor();
      assert.equal(await seen(), before, "what is read stays where it is");
      await page.getByRole("button", { name: "1 new run" }).click();
      await page.getByRole("link", { name: "scene-quick: the newest" }).waitFor();
      await page.getByLabel("Filter by question").fill("no such question");
      await page.getByText("No loaded run fits the filter").waitFor();
    });
  },

  async "a sandbox: files, connections, deadline and end"() {
    const { id } = await api("POST", "/sandboxes", { template: "python-data", timeout_seconds: 600, metadata: { team: "red" }, network: { reach: { allow: [{ host: "allowed.invalid" }] } } });
    await api("POST", `/sandboxes/${id}/calls`, { script: "mkdir -p d; printf 'a,b\\n1,2\\n' > d/x.csv; python3 -c 'import urllib.request; urllib.request.urlopen(\"http://denied.invalid\", timeout=5)'; true" });
    await logged(VIEWS.light, "/sandboxes?q=red", async ({ page, expected }) => {
      await page.getByRole("link", { name: id }).click();
      await page.getByText("allowed.invalid").waitFor();
      const sleeping = api("POST", `/sandboxes/${id}/calls`, { script: "sleep 120" }).catch(() => {});
      await page.getByRole("button", { name: /^End call/ }).click();
      await page.getByRole("dialog", { name: /^End call/ }).getByRole("button", { name: "End it" }).click();
      await page.getByText("No call is running.").waitFor();
      await sleeping;
      await page.getByRole("tab", { name: "Files" }).click();
      await page.getByRole("button", { name: "d/" }).click();
      await page.getByRole("button", { name: "x.csv" }).click();
      await page.getByRole("group", { name: "Table" }).getByRole("cell", { name: "2" }).waitFor();
      await page.getByLabel("Upload").setInputFiles({ name: "up.txt", mimeType: "text/plain", buffer: Buffer.from("hello") });
      await page.getByRole("button", { name: "up.txt" }).click();
      await page.getByText("hello").waitFor();
      assert.deepEqual(await findBarriers(page), []);
      await page.getByRole("tab", { name: "Connections" }).click();
      await page.getByRole("cell", { name: "denied", exact: true }).first().waitFor();
      assert.deepEqual(await findBarriers(page), []);
      await page.getByRole("button", { name: "Extend…" }).click();
      await page.getByLabel("Minutes from now").fill("50");
      await page.getByRole("button", { name: "Set", exact: true }).click();
      await page.getByText(/ends in (49|50) min/).waitFor();
      expected.add(404);
      await page.getByRole("button", { name: "End…", exact: true }).click();
      await page.getByRole("button", { name: "End it" }).click();
      await page.getByText("killed").waitFor();
    });
  },

  async "many sandboxes end at once"() {
    const made = [1, 2, 3].map(() => api("POST", "/sandboxes", { template: "python-data", metadata: { crowd: "yes" } }));
    const ids = (await Promise.all(made)).map((it) => it.id);
    await logged(VIEWS.light, "/sandboxes?q=crowd", async ({ page }) => {
      await page.getByRole("link", { name: ids[2] }).waitFor();
      await page.getByLabel("Choose all").check();
      await page.getByRole("button", { name: "End 3…" }).click();
      await page.getByRole("button", { name: "End them" }).click();
      for (const id of ids) await page.getByRole("link", { name: id }).waitFor({ state: "detached" });
      await page.getByRole("button", { name: "Ended" }).click();
      await page.getByRole("link", { name: ids[0] }).waitFor();
    });
  },

  async "usage by run leads to the run"() {
    const id = await soldRun();
    await logged(VIEWS.light, "/usage", async ({ page }) => {
      await page.locator(".chart canvas").waitFor();
      await page.getByLabel("Group by").selectOption("run");
      await page.getByRole("link", { name: id }).click();
      await page.getByRole("article", { name: "Turn 1" }).waitFor();
    });
  },

  async "data is uploaded, described and deleted; templates are listed"() {
    await logged(VIEWS.light, "/data", async ({ page }) => {
      await page.getByLabel("Upload").setInputFiles({ name: "x.csv", mimeType: "text/csv", buffer: Buffer.from("fruit,price\npear,2\nplum,3\n") });
      const digest = "bdfffd7b7f86fe1f";
      await page.getByRole("button", { name: digest, exact: true }).click();
      await page.getByRole("group", { name: "Description of the file" }).getByText("fruit").waitFor();
      assert.deepEqual(await findBarriers(page), []);
      await page.getByRole("button", { name: `Delete ${digest}` }).click();
      await page.getByRole("button", { name: "Delete", exact: true }).click();
      await page.getByRole("button", { name: digest, exact: true }).waitFor({ state: "detached" });
      await page.getByRole("link", { name: "Templates" }).click();
      await page.getByRole("cell", { name: "python-data" }).waitFor();
      assert.deepEqual(await findBarriers(page), []);
    });
  },

  async "a workflow and its graph"() {
    const { id } = await api("POST", "/workflows", { definition: FLOW });
    await logged(VIEWS.light, "/workflows", async ({ page }) => {
      await page.getByRole("link", { name: "count" }).click();
      await page.getByRole("heading", { name: "doubled" }).waitFor({ timeout: 60_000 });
      const graph = page.getByRole("img", { name: /double: done/ });
      await until("the graph", () => graph.evaluate((it) => it.naturalWidth > 0));
      assert.equal((await api("GET", `/workflows/${id}`)).state, "done");
    });
  },

  async "the keyboard alone"() {
    await soldRun();
    await logged(VIEWS.light, "/runs", async ({ page }) => {
      await page.getByRole("heading", { name: "Runs" }).waitFor();
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
      assert.deepEqual(await findBarriers(page), []);
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
      const opener = page.getByRole("button", { name: "Keyboard shortcuts", exact: true });
      await opener.click();
      await page.getByRole("dialog", { name: "Keyboard" }).getByRole("button", { name: "Close" }).click();
      await page.getByRole("dialog").waitFor({ state: "detached" });
      assert.ok(await opener.evaluate((it) => it === document.activeElement), "the focus returns to the opener");
      const keys = page.getByRole("button", { name: "Single-key shortcuts" });
      await keys.click();
      await page.keyboard.type("gs");
      await page.waitForTimeout(300);
      assert.equal(await page.getByRole("heading", { name: "Sandboxes" }).count(), 0, "keys are off");
      await keys.click();
      await page.keyboard.type("gs");
      await page.getByRole("heading", { name: "Sandboxes" }).waitFor();
      await page.keyboard.type("gr");
      await page.getByRole("heading", { name: "Runs" }).waitFor();
      await page.keyboard.press("/");
      await page.keyboard.type("highest");
      const found = page.getByRole("link", { name: "Which region has the highest revenue?" });
      await found.waitFor();
      for (let tabs = 0; tabs < 12 && !(await found.evaluate((it) => it === document.activeElement)); tabs += 1) await page.keyboard.press("Tab");
      await page.keyboard.press("Enter");
      await page.getByRole("article", { name: "Turn 1" }).waitFor();
    });
  },

  async "hostile text, output and files run no script"() {
    const { id } = await ask('scene-hostile <script>alert(1)</script><img src=x onerror="alert(2)">');
    await ended(id);
    await logged(VIEWS.light, `/runs/${id}`, async ({ page }) => {
      await page.getByText("<script>alert(2)</script>", { exact: false }).first().waitFor();
      await page.getByRole("button", { name: "Show the whole output" }).click();
      await page.getByRole("button", { name: /Show all/ }).click();
      await page.getByRole("region", { name: "End" }).scrollIntoViewIfNeeded();
      await page.getByRole("img", { name: "evil.svg" }).waitFor({ timeout: 5000 });
      assert.equal(await page.locator('a[href^="javascript:"], iframe, main script').count(), 0);
      assert.equal(await page.title(), `Run ${id.slice(0, 8)} · Belljar`);
    });
  },

  async "another tenant's key sees none of it"() {
    const id = await soldRun();
    const it = await open(browser, stack.url);
    it.expected.add(404);
    await logIn(it.context, stack.otherKey);
    await it.go(`/runs/${id}`);
    await it.page.getByText("Cannot load the run").waitFor();
    await it.go("/runs");
    await it.page.getByText("There are no runs yet").waitFor();
    assert.deepEqual(it.faults, []);
    await it.context.close();
  },

  async "every screen, light, dark and on a phone: no barrier, and nothing too wide"() {
    const run = await soldRun();
    const { id: sandbox } = await api("POST", "/sandboxes", { template: "python-data", metadata: { team: "blue" } });
    const { items: flows } = await api("GET", "/workflows?limit=1");
    const flow = flows[0] ?? (await api("POST", "/workflows", { definition: FLOW }));
    const screens = { runs: "/runs", run: `/runs/${run}`, turn: `/runs/${run}#turn-2`, create: "/runs/new", approvals: "/approvals", sandboxes: "/sandboxes", ended: "/sandboxes?show=ended", sandbox: `/sandboxes/${sandbox}`, files: `/sandboxes/${sandbox}?tab=files`, connections: `/sandboxes/${sandbox}?tab=connections`, workflows: "/workflows", workflow: `/workflows/${flow.id}`, data: "/data", templates: "/templates", usage: "/usage", "usage-run": "/usage?by=run", missing: "/nowhere" };
    const found = [];
    for (const [name, view] of Object.entries(VIEWS)) {
      for (const [screen, path] of Object.entries(screens)) {
        await logged(view, path, async ({ page }) => {
          await page.getByRole("heading").first().waitFor();
          await page.waitForTimeout(800);
          const wide = await excess(page);
          const barriers = await findBarriers(page);
          if (wide > 0) barriers.push(`wider than the screen by ${wide}`);
          found.push(...barriers.map((one) => `${screen}, ${name}: ${one}`));
          if (shots) writeFileSync(join(shots, `${screen}-${name}.png`), await page.screenshot());
        });
      }
    }
    await api("DELETE", `/sandboxes/${sandbox}`);
    assert.deepEqual(found, []);
  },
};

const words = process.argv.slice(2);
const at = words.indexOf("--shots");
const shots = at >= 0 ? words.splice(at, 2)[1] : undefined;
if (shots) mkdirSync(shots, { recursive: true });

stack = await start();
browser = await launch();
console.log(`console ${stack.embedded ? "of the server" : "of console/dist"}, ${stack.url}`);
let failures = 0;
for (const [name, journey] of Object.entries(journeys)) {
  if (words.length > 0 && !words.some((word) => name.includes(word))) continue;
  const began = Date.now();
  try {
    await journey();
    console.log(`${name} ... ok, ${((Date.now() - began) / 1000).toFixed(1)} s`);
  } catch (error) {
    failures += 1;
    console.log(`${name} ... FAILED: ${error.stack}`);
  }
}
await browser.close();
await stack.stop();
console.log(`console: ${failures === 0 ? "ok" : `${failures} failed`}`);
process.exit(failures === 0 ? 0 : 1);
