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
