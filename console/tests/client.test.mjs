// Requests, polling and lists: what a page keeps between two answers of the server.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { createServer } from "vite";

const vite = await createServer({ configFile: false, root: new URL("..", import.meta.url).pathname, appType: "custom", logLevel: "error", server: { middlewareMode: true, ws: false, watch: null }, optimizeDeps: { noDiscovery: true } });
after(() => vite.close());
const load = (path) => vite.ssrLoadModule(path);
globalThis.sessionStorage = { getItem: () => null, setItem() {}, removeItem() {} };

test("a request that is repeated after a lost response has the same idempotency key", async () => {
  const { OnceKey, api } = await load("/src/api/client.ts");
  const once = new OnceKey();
  const keys = [];
  const post = (question, respond, key = once) => {
    globalThis.fetch = async (_, { headers }) => {
      keys.push(headers.get("idempotency-key"));
      return respond();
    };
    return api("post", "/v1/runs", { body: { question }, once: key });
  };
  const lost = () => Promise.reject(new TypeError("Failed to fetch"));
  const cut = () => new Response(new ReadableStream({ start: (it) => it.error(new TypeError("network error")) }), { status: 201 });
  const refused = () => new Response("{}", { status: 503 });
  const made = () => new Response('{"id":"r"}', { status: 201 });
  await assert.rejects(post("a", lost), { code: "unreachable", hint: /happens only once/ });
  await assert.rejects(post("a", cut), { code: "unreachable" });
  await assert.rejects(post("a", refused), { status: 503 });
  assert.deepEqual(await post("a", made), { id: "r" });
  assert.equal(new Set(keys).size, 1);
  assert.match(keys[0], /^[a-z0-9-]+$/);
  // After a success, an edit, and in another form the key is another one.
  await assert.rejects(post("a", lost));
  await assert.rejects(post("b", lost));
  await assert.rejects(post("b", lost, new OnceKey()));
  assert.equal(new Set(keys).size, 4);
});

test("only a read is said to be repeated by the page", async () => {
  const { api } = await load("/src/api/client.ts");
  globalThis.fetch = () => Promise.reject(new TypeError("Failed to fetch"));
  await assert.rejects(api("get", "/v1/runs"), { hint: /tries again/ });
  await assert.rejects(api("post", "/v1/runs/{run}/retry", { params: { run: "r" }, body: {} }), { hint: /look before/ });
});

test("polling stops when the server refuses, and when a run has ended", async () => {
  const { ApiError } = await load("/src/api/client.ts");
  const { every, untilEnd } = await load("/src/api/poll.ts");
  const query = (status, data) => ({ state: { data, error: status && new ApiError(status, "c", "m") } });
  assert.deepEqual([null, 0, 403, 404, 429, 503].map((status) => every(9)(query(status))), [9, 9, false, false, 9, 9]);
  assert.deepEqual([{ end: {} }, { end: null }, undefined].map((run) => untilEnd(9)(query(null, run))), [false, 9, 9]);
  assert.equal(untilEnd(9)(query(404, {})), false);
});

test("a hidden page follows nothing", async () => {
  const { whileVisible } = await load("/src/api/stream.ts");
  const page = Object.assign(new EventTarget(), { visibilityState: "visible" });
  const signals = [];
  const show = (state) => (page.visibilityState = state, page.dispatchEvent(new Event("visibilitychange")));
  const stop = whileVisible(page, (signal) => signals.push(signal));
  show("visible");
  show("hidden");
  assert.deepEqual(signals.map((it) => it.aborted), [true]);
  show("visible");
  assert.deepEqual(signals.map((it) => it.aborted), [true, false]);
  stop();
  show("hidden");
  show("visible");
  assert.deepEqual(signals.map((it) => it.aborted), [true, true]);
});

test("a reader that fails lets its connection go", async () => {
  const { follow } = await load("/src/api/stream.ts");
  const stop = new AbortController();
  let cancelled = 0;
  const body = new ReadableStream({ start: (it) => it.enqueue(new TextEncoder().encode("data: x\n\n")), cancel: () => void (cancelled += 1) });
  globalThis.fetch = async () => new Response(body);
  await follow({
    path: "/v1/runs/{run}/events",
    options: { params: { run: "r" } },
    signal: stop.signal,
    resume: () => ({}),
    onEvents() {
      throw new Error("cannot read the event");
    },
    onState: (state) => state === "waiting" && stop.abort(),
  });
  assert.equal(cancelled, 1);
});

test("the budget bar of a live run is not the entry of a finished run", async () => {
  const { barQuery } = await load("/src/usage/bar.tsx");
  const { runQuery } = await load("/src/runs/lines.ts");
  const bar = barQuery("r");
  for (const state of ["finished", "running"]) assert.notDeepEqual(bar.queryKey, runQuery({ id: "r", state }).queryKey);
  assert.equal(bar.refetchInterval({ state: { data: { end: null }, error: null } }), 30_000);
});

test("the period of usage moves with each minute", async () => {
  const { startOf } = await load("/src/usage/usage.tsx");
  const now = Date.parse("2026-03-02T10:20:30Z");
  assert.equal(startOf("day", now), "2026-03-01T10:20:00.000Z");
  assert.equal(startOf("day", now + 29_000), "2026-03-01T10:20:00.000Z");
  assert.equal(startOf("week", now + 60_000), "2026-02-23T10:21:00.000Z");
});

const line = (number, state = "running") => ({ id: `r${number}`, state, made_at: `2026-01-01T00:00:${number}Z` });
const ids = (older) => older?.lines.map((it) => it.id).toSorted();

test("older pages are discarded when runs between them and the newest page are missing", async () => {
  const { absorb } = await load("/src/runs/lines.ts");
  const older = { state: "", lines: [line(12), line(11), line(10)], next: "r10" };
  assert.equal(absorb(undefined, [line(12)]), undefined);
  const moved = absorb(older, [line(14), line(13), line(12, "finished")]);
  assert.deepEqual(ids(moved), ["r10", "r11", "r12", "r13", "r14"]);
  assert.deepEqual([moved.next, moved.lines.find((it) => it.id === "r12").state], ["r10", "finished"]);
  // Pages that overlap one after another leave no gap; a jump does.
  const next = [line(16), line(15), line(14)];
  assert.deepEqual(ids(absorb(moved, next)), ["r10", "r11", "r12", "r13", "r14", "r15", "r16"]);
  assert.equal(absorb(older, next), undefined);
  const settled = absorb(moved, next);
  assert.equal(absorb(settled, next), settled);
});

test("denied connections come first, also from pages that are not loaded", async () => {
  const { inOrder } = await load("/src/sandboxes/connections.tsx");
  const row = (sequence, decision) => ({ sequence, decision });
  const rows = [row(1, "allowed"), row(2, "denied"), row(3, "failed")];
  const denied = [row(2, "denied"), row(900, "denied")];
  assert.deepEqual(inOrder(denied, rows).map((it) => it.sequence), [900, 2, 3, 1]);
});

test("a page whose files are gone reloads once", async () => {
  const { reloadOnce } = await load("/src/reload.ts");
  const kept = new Map();
  const store = { getItem: (name) => kept.get(name) ?? null, setItem: (name, value) => kept.set(name, value) };
  let reloads = 0;
  const fail = (now) => reloadOnce(store, () => (reloads += 1), now);
  assert.deepEqual([fail(1e12), fail(1e12 + 5000), fail(1e12 + 3_600_000)], [true, false, true]);
  assert.equal(reloads, 2);
});
