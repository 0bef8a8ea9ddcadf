// Prints the size of each file of the build, and fails if what every page loads is above its bound.

import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const BOUND = 150_000;
const dist = new URL("dist/", import.meta.url);
const page = readFileSync(new URL("index.html", dist), "utf8");
const first = new Set(["index.html", ...Array.from(page.matchAll(/\/console\/(assets\/[^"]+)/g), (it) => it[1])]);
let sum = 0;
for (const name of new Set([...first, ...readdirSync(new URL("assets/", dist)).map((it) => `assets/${it}`)])) {
  const bytes = gzipSync(readFileSync(new URL(name, dist)), { level: 9 }).length;
  if (first.has(name)) sum += bytes;
  console.log(`${String(bytes).padStart(8)}  ${name}${first.has(name) ? "  (every page)" : ""}`);
}
console.log(`${String(sum).padStart(8)}  what every page loads, compressed; at most ${BOUND}`);
if (sum > BOUND) process.exit(1);
