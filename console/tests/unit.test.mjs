// Parts that need no browser: streams, transcripts, tables and numbers.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { createServer } from "vite";

const vite = await createServer({ configFile: false, root: new URL("..", import.meta.url).pathname, appType: "custom", logLevel: "error", server: { middlewareMode: true, ws: false, watch: null }, optimizeDeps: { noDiscovery: true } });
after(() => vite.close());
const load = (path) => vite.ssrLoadModule(path);

test("a stream is split into events wherever it was cut", async () => {
  const { EventParser } = await load("/src/api/stream.ts");
  const text = ': hello\n\nevent: delta\ndata: {"a":1}\n\nevent: finished\ndata: x\ndata: y\nid: 7\r\n\r\n';
  for (let size = 1; size < text.length; size += 1) {
    const parser = new EventParser();
    const events = [];
    for (let at = 0; at < text.length; at += size) events.push(...parser.push(text.slice(at, at + size)));
    assert.deepEqual(events, [{ name: "delta", data: '{"a":1}' }, { name: "finished", data: "x\ny", id: "7" }], `pieces of ${size}`);
  }
});

const events = [
  { seq: 1, kind: "run_created" },
  { seq: 2, kind: "llm_requested", turn: 1, model: "m" },
  { seq: 3, kind: "llm_responded", turn: 1, blocks: [{ type: "text", text: "Look." }, { type: "tool_use", id: "c", name: "shell", input: { command: "ls" } }], tokens: { input: 1, cache_read: 2, cache_write: 3, output: 4 }, nano_dollars: 5, micros: 6 },
  { seq: 4, kind: "tool_started", call: { turn: 1, id: "c" }, sandbox: "s" },
  { seq: 5, kind: "artifact_added", name: "f.png", media_type: "image/png", content: { sha256: "0", bytes: 1 }, call: { turn: 1, id: "c" } },
  { seq: 6, kind: "network_used", call: { turn: 1, id: "c" }, connections: 2, refused: 1, bytes: { in: 3, out: 4 } },
  { seq: 7, kind: "tool_finished", call: { turn: 1, id: "c" }, reason: "exit", exit_code: 1, shown: "no", used: {} },
  { seq: 8, kind: "something_newer" },
  { seq: 9, kind: "finished", outcome: "answered" },
].map((event) => ({ at: "2026-01-02T03:04:05Z", v: 1, ...event }));

test("events become turns, each once", async () => {
  const { Transcript } = await load("/src/runs/transcript.ts");
  const transcript = new Transcript();
  // A stream that was cut sends some events again.
  for (const event of [...events.slice(0, 6), ...events]) transcript.add(event.kind, JSON.stringify(event));
  assert.equal(transcript.raw.length, events.length);
  assert.ok(transcript.isFinished);
  assert.deepEqual(transcript.tokens, { input: 1, cache_read: 2, cache_write: 3, output: 4 });
  assert.deepEqual(transcript.egress, { in: 3, out: 4, refused: 1 });
  const [turn] = transcript.turns;
  assert.equal(transcript.turns.length, 1);
  assert.deepEqual([turn.text, turn.model, turn.nanoDollars, turn.calls.length], ["Look.", "m", 5, 1]);
  const [call] = turn.calls;
  assert.deepEqual([call.input.command, call.sandbox, call.end.exit_code, call.artifacts[0].name], ["ls", "s", 1, "f.png"]);
});

test("words arrive in order, and the answer replaces them", async () => {
  const { Transcript } = await load("/src/runs/transcript.ts");
  const transcript = new Transcript();
  const say = (from, text) => transcript.add("delta", JSON.stringify({ kind: "delta", turn: 1, from, text }));
  say(0, "Lö");
  say(2, "ok");
  say(9, "lost");
  assert.equal(transcript.turns[0].words, "Löok");
  say(0, "Again");
  assert.equal(transcript.turns[0].words, "Again");
  transcript.add("llm_responded", JSON.stringify(events[2]));
  assert.deepEqual([transcript.turns[0].words, transcript.turns[0].text], ["", "Look."]);
});

test("tables with quotes", async () => {
  const { readTable } = await load("/src/ui/file.tsx");
  assert.deepEqual(readTable('a,"b,""c"""\r\n1,"x\ny"\n', ","), [["a", 'b,"c"'], ["1", "x\ny"]]);
});

test("escape sequences are removed", async () => {
  const { plain } = await load("/src/ui/code.tsx");
  assert.equal(plain("\x1b[31mred\x1b[0m \x1b]0;title\x07a\tb\nc\x1b]8;;http://x\x1b\\d"), "red a\tb\ncd");
});

test("sizes and times", async () => {
  const { bytes, dollars, millis } = await load("/src/format.ts");
  assert.deepEqual([bytes(0), bytes(1536), bytes(2 ** 31)], ["0 B", "1.5 KiB", "2.0 GiB"]);
  assert.deepEqual([dollars(0), dollars(1), dollars(6_685_000), dollars(12_000_000_000)], ["$0", "<$0.0001", "$0.0067", "$12.00"]);
  assert.deepEqual([millis(5), millis(61_000), millis(7_260_000)], ["5 ms", "1 min 1 s", "2 h 1 min"]);
});

test("what is past is never said to be in the future", async () => {
  const { until } = await load("/src/format.ts");
  const now = Date.parse("2026-01-02T03:04:05Z");
  const after = (seconds) => until(new Date(now + seconds * 1000).toISOString(), now);
  assert.deepEqual([after(120), after(5), after(0), after(-20), after(-120)], ["in 2 min", "in 5 s", "now", "now", "overdue by 2 min"]);
});

test("a decided request keeps its place", async () => {
  const { keepInPlace } = await load("/src/approvals/waiting.tsx");
  const request = (id, changes = []) => ({ id, changes });
  const first = keepInPlace([], [request("a"), request("b")]);
  const then = keepInPlace(first, [request("c"), request("b", ["new"])]);
  assert.deepEqual(then, [request("a"), request("b", ["new"]), request("c")]);
});

test("hostile Markdown takes linear time", async () => {
  const { inline, Markdown } = await load("/src/ui/markdown.tsx");
  const hostile = ["[", "![", "[a](", "[a](b", "[]", "`", "``a", "*", "**", "*a", "**a", "** a*", "`a", "](", "#", "#\u2028", ">", "- ", "1", "|", " |"];
  const texts = [...hostile.map((it) => it.repeat(80_000 / it.length)), `|\n${" ".repeat(80_000)}x`, `#${" ".repeat(80_000)}x\u2028y`, `|\n${"-".repeat(80_000)}x`];
  for (const text of texts) {
    const start = performance.now();
    inline(text);
    Markdown({ text });
    const took = performance.now() - start;
    assert.ok(took < 4000, `${JSON.stringify(text.slice(0, 8))}: ${Math.round(took)} ms`);
  }
  const [, link, , picture] = inline("see [it](https://a.example/b?c=d) and ![this](https://a.example)");
  assert.deepEqual([link.props.href, link.props.children, picture.type], ["https://a.example/b?c=d", "it", "span"]);
});

test("previews are cut, and say so", async () => {
  const { Table, beginning } = await load("/src/ui/file.tsx");
  const { renderToStaticMarkup } = await import("react-dom/server");
  const { createElement } = await import("react");
  const row = Array.from({ length: 60 }, (_, at) => `c${at}`).join(",");
  const drawn = renderToStaticMarkup(createElement(Table, { text: `${row}\n${row}\n`, separator: "," }));
  assert.equal(drawn.match(/<t[hd]/g).length, 1 + 2 * 50);
  assert.match(drawn, /The first 50 of 60 columns/);
  const { text, isCut } = await beginning(new Blob(["a", "ö".repeat(60_000)]));
  assert.deepEqual([isCut, text], [true, `a${"ö".repeat(49_999)}`]);
  assert.deepEqual(await beginning(new Blob(["short"])), { text: "short", isCut: false });
});

test("a delta before the replay changes neither the order of turns nor the place of notes", async () => {
  const { Transcript } = await load("/src/runs/transcript.ts");
  const transcript = new Transcript();
  const add = (event) => transcript.add(event.kind, JSON.stringify({ at: "2026-01-02T03:04:05Z", ...event }));
  const requested = (seq, turn) => add({ seq, kind: "llm_requested", turn, model: "m" });
  transcript.add("delta", JSON.stringify({ kind: "delta", turn: 3, from: 0, text: "Now" }));
  add({ seq: 1, kind: "parameter_deviated", parameter: "p" });
  requested(2, 1);
  add({ seq: 3, kind: "cancelled" });
  add({ seq: 4, kind: "stage_changed", stage: "check", attempt: 1 });
  requested(5, 2);
  add({ seq: 6, kind: "resumed" });
  requested(7, 3);
  add({ seq: 8, kind: "budget_changed" });
  assert.deepEqual(transcript.start.map((it) => it.seq), [1]);
  assert.deepEqual(transcript.turns.map((it) => [it.turn, it.words, it.stage, it.after.map((note) => note.seq)]), [[1, "", undefined, [3]], [2, "", "check 1", [6]], [3, "Now", "check 1", [8]]]);
});

test("deltas take linear time", async () => {
  const { Transcript } = await load("/src/runs/transcript.ts");
  const transcript = new Transcript();
  const start = performance.now();
  for (let from = 0; from < 60_000; from += 2) transcript.add("delta", JSON.stringify({ kind: "delta", turn: 1, from, text: "ö😀" }));
  assert.equal(transcript.turns[0].words, "ö😀".repeat(30_000));
  assert.ok(performance.now() - start < 4000);
});

test("limits, pauses and estimates are said for people", async () => {
  const { Transcript } = await load("/src/runs/transcript.ts");
  const { cost } = await load("/src/format.ts");
  const transcript = new Transcript();
  let seq = 0;
  const say = (kind, fields) => transcript.add(kind, JSON.stringify({ seq: (seq += 1), at: "2026-01-02T03:04:05Z", kind, ...fields }));
  for (const limit of ["turns", "wall", "tokens", "money", "output", "cpu", "newer"]) say("limit_hit", { limit, turn: 1, used: 2_000_000, allowed: 1_500_000 });
  const call = { turn: 1, id: "c" };
  for (const hold of [undefined, { point: "approval", call, tool: { tool: "shell" } }, { point: "question", call }, { point: "turn", turn: 2 }, { point: "call", call }]) say("paused", { hold });
  assert.deepEqual(transcript.start.map((it) => it.text), [
    "The turn budget is used up: 2,000,000 of 1,500,000",
    "The time budget is used up: 33 min 20 s of 25 min 0 s",
    "The token budget is used up: 2,000,000 of 1,500,000",
    "The cost budget is used up: $0.0020 of $0.0015",
    "The output budget is used up: 1.9 MiB of 1.4 MiB",
    "The CPU budget is used up: 33 min 20 s of 25 min 0 s",
    "The newer budget is used up: 2,000,000 of 1,500,000",
    "Paused", "Paused: a call of shell waits for approval", "Paused for your answer", "Paused before turn 2", "Paused before a call",
  ]);
  say("llm_responded", { turn: 1, blocks: [], tokens: { input: 0, cache_read: 0, cache_write: 0, output: 0 }, nano_dollars: 2e9, assumed: true, micros: 1 });
  const [turn] = transcript.turns;
  assert.equal(cost(turn.nanoDollars, turn.isEstimate), "≈ $2.00");
  assert.equal(cost(turn.nanoDollars, false), "$2.00");
});

test("keys are shortcuts only alone, outside of fields and dialogs, and while they are on", async (context) => {
  const stored = new Map();
  let dialog = null;
  globalThis.localStorage = { getItem: (name) => stored.get(name) ?? null, setItem: (name, value) => stored.set(name, value), removeItem: (name) => stored.delete(name) };
  globalThis.document = { querySelector: (selector) => (selector === "dialog[open]" ? dialog : null) };
  context.after(() => {
    delete globalThis.localStorage;
    delete globalThis.document;
  });
  const { areShortcutsOn, isShortcut, setShortcuts } = await load("/src/shortcuts.ts");
  const press = (more = {}) => isShortcut({ key: "j", metaKey: false, ctrlKey: false, altKey: false, target: { tagName: "BODY" }, ...more });
  assert.ok(press());
  for (const modifier of ["metaKey", "ctrlKey", "altKey"]) assert.ok(!press({ [modifier]: true }), modifier);
  for (const target of [{ tagName: "TEXTAREA" }, { tagName: "DIV", isContentEditable: true }]) assert.ok(!press({ target }));
  dialog = {};
  assert.ok(!press(), "behind a dialog");
  dialog = null;
  setShortcuts(false);
  assert.deepEqual([press(), areShortcutsOn()], [false, false]);
  setShortcuts(true);
  assert.ok(press());
});
