// A server with a scripted model, in a directory of its own, and the console before it.
//
// `node stack.mjs` starts both and prints the address and the key; it ends with a signal.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request as ask } from "node:http";
import { readFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { dirname, extname, join, normalize } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..", "..");
const target = join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "suite");
const cache = process.env.BELLJAR_CACHE ?? join(homedir(), ".cache", "belljar");

/** The policy that a server sends with the console. */
export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
  "img-src 'self' data: blob:; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".json": "application/json",
};

export async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

/** Starts a program and waits for its end when `stop` is called. */
function program(command, args, options = {}) {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"], ...options });
  const ended = new Promise((done) => child.on("exit", done));
  // A test that fails early leaves nothing behind.
  process.on("exit", () => child.kill());
  return {
    child,
    async stop() {
      if (child.exitCode === null) child.kill("SIGINT");
      await ended;
    },
  };
}

async function model(folder) {
  const key = join(folder, "model.key");
  writeFileSync(key, randomBytes(16).toString("hex"), { mode: 0o600 });
  const script = join(here, "script.toml");
  const one = program(join(target, "belljar-scripted"), ["model", "--script", script, "--credential-file", key]);
  const lines = createInterface({ input: one.child.stdout });
  const line = await new Promise((done) => lines.once("line", done));
  return { ...one, key, address: JSON.parse(line).address };
}

function settings(folder, model) {
  const gateway = join(folder, "gateway.toml");
  writeFileSync(
    gateway,
    `[operations.llm]
kind = "model"
dialects = ["anthropic-messages"]
upstream = "http://${model.address}"
plaintext = true
credential = { file = "${model.key}", as = "x-api-key" }
models = ["scripted"]
prices = "${join(here, "prices.toml")}"
`,
  );
  const node = join(folder, "node.toml");
  writeFileSync(node, `gateway = "${gateway}"\n`);
  return node;
}

/** Passes a request on to the server, and its response back as it comes. */
function forward(port, request, response) {
  const options = { host: "127.0.0.1", port, path: request.url, method: request.method, headers: request.headers };
  const there = ask(options, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  there.on("error", () => response.writeHead(502).end());
  response.on("close", () => there.destroy());
  request.pipe(there);
}

/** Serves the built console as a server does: hashed files, and the page for every other address. */
async function front(backend, dist) {
  const server = createServer(async (request, response) => {
    const path = new URL(request.url, "http://x").pathname;
    if (!path.startsWith("/console")) return forward(backend, request, response);
    const name = normalize(path.slice("/console".length)).replace(/^\/+/, "");
    const read = (file) => readFile(join(dist, file)).catch(() => null);
    const asset = name.startsWith("assets/") || name === "favicon.svg";
    const body = asset ? await read(name) : await read("index.html");
    if (!body) return response.writeHead(404).end();
    response.setHeader("content-security-policy", POLICY);
    response.setHeader("x-content-type-options", "nosniff");
    response.setHeader("content-type", TYPES[asset ? extname(name) : ".html"] ?? "application/octet-stream");
    response.end(body);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return server;
}

async function ready(url) {
  for (let tries = 0; tries < 600; tries += 1) {
    const answer = await fetch(`${url}/v1/ready`).catch(() => null);
    if (answer?.ok) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`${url} is not ready after a minute`);
}

/**
 * Starts everything. If the server has this build of the console in itself, it is tested there; otherwise
 * `console/dist` is put before it. With BELLJAR_REQUIRE_EMBEDDED=1 (`.ci/console --check`) that is an error.
 */
export async function start() {
  const folder = mkdtempSync(join(tmpdir(), "belljar-console-"));
  const key = `e2b_${randomBytes(20).toString("hex")}`;
  const otherKey = `e2b_${randomBytes(20).toString("hex")}`;
  const keys = join(folder, "keys");
  writeFileSync(keys, `${key} acme\n${otherKey} other\n`, { mode: 0o600 });
  const scripted = await model(folder);
  const port = await freePort();
  const args = ["serve", "--listen", `127.0.0.1:${port}`, "--keys", keys, "--config", settings(folder, scripted)];
  const environment = { ...process.env, BELLJAR_DATA: join(folder, "data") };
  environment.BELLJAR_STORE ??= join(cache, "templates");
  const server = program(join(target, "belljar"), [...args, "--pool", "1"], {
    env: environment,
    stdio: ["ignore", "ignore", process.env.VERBOSE ? "inherit" : "ignore"],
  });
  const backend = `http://127.0.0.1:${port}`;
  await ready(backend);
  const dist = join(root, "console", "dist");
  const page = await readFile(join(dist, "index.html"), "utf8");
  // The page names its files by their content, so an equal page is the same build.
  const embedded = await fetch(`${backend}/console/`).then(async (it) => (await it.text()) === page, () => false);
  if (!embedded && process.env.BELLJAR_REQUIRE_EMBEDDED === "1") {
    await server.stop();
    await scripted.stop();
    rmSync(folder, { recursive: true, force: true });
    throw new Error(`${join(target, "belljar")} does not serve the console of console/dist; build it again with \`just suites\``);
  }
  const before = embedded ? null : await front(port, dist);
  const url = embedded ? backend : `http://127.0.0.1:${before.address().port}`;
  const stop = async () => {
    before?.closeAllConnections();
    before?.close();
    await server.stop();
    await scripted.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  return { url, backend, key, otherKey, embedded, stop };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const stack = await start();
  console.log(JSON.stringify({ url: stack.url, backend: stack.backend, key: stack.key }));
  for (const signal of ["SIGINT", "SIGTERM"]) {
    process.on(signal, () => stack.stop().then(() => process.exit(0)));
  }
}
