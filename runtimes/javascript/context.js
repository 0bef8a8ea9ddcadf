// A stateful JavaScript context, driven over descriptor 3.
//
// Cells run through V8's own REPL mode, reached by an inspector session inside
// this process: it keeps `let`, `const` and `class` of earlier cells, lets later
// cells declare them again, and awaits at top level. No source is rewritten,
// except for `import`, which that mode does not know.
//
// Frames are a four byte little-endian length and that many bytes of JSON. They
// are written synchronously: a cell that never yields still shows its output.
//
// SIGINT ends a cell that does not yield, up to its first await, and a pending
// await. A loop after an await cannot be interrupted. Node changes its signal
// handlers when the first part of a cell begins and ends, and for some
// microseconds has none: a SIGINT that arrives just then ends this process, or is
// spent on the next cell.

"use strict";
const fs = require("fs");
const inspector = require("inspector");
const module_ = require("module");
const net = require("net");
const path = require("path");
const url = require("url");
const util = require("util");
const vm = require("vm");

const DESCRIPTOR = 3;
const MESSAGE_LIMIT = 32 << 20;
const TEXT_FRAME = 256 << 10;
const EVALUATE = Symbol.for("belljar.evaluate");
const TAKE = Symbol.for("belljar.take");
const BUNDLE = Symbol.for("Jupyter.display");

let cell = null; // which cell output belongs to, also after it has ended
let running = null; // how to end the running cell
let count = 0;
let own = new Set();

// Frames.

const nap = new Int32Array(new SharedArrayBuffer(4));
let unsent = null;
let sent = 0;

// An interrupt can end user code anywhere, also here, so what is left of a frame
// is kept and goes out before the next one. V8 looks for interrupts when a
// function is entered and when a loop turns. `fs.writeSync` calls functions after
// the system call and could lose its count; the binding under it does not.
const writeBuffer = process.binding("fs").writeBuffer;

function write(frame) {
  if (unsent !== null) drain();
  sent = 0;
  unsent = frame;
  drain();
}

function drain() {
  while (unsent !== null) {
    // Older versions report an error in `context`, newer ones throw it.
    const context = {};
    try {
      const count = writeBuffer(DESCRIPTOR, unsent, sent, unsent.length - sent, null, undefined, context);
      if (count > 0) sent += count;
    } catch (error) {
      context.code = error.code;
    }
    if (sent >= unsent.length) unsent = null;
    else if (context.code === "EAGAIN") Atomics.wait(nap, 0, 0, 1); // the host is slow
    else if (context.code === "EPIPE") process.reallyExit(0);
    else if (context.code !== undefined) throw new Error(`the context's socket failed: ${context.code}`);
  }
}

function encode(event) {
  // JSON.stringify escapes a surrogate only if it has no partner.
  const text = JSON.stringify(event).replace(/\\(\\|u[dD][89a-fA-F][0-9a-fA-F]{2})/g, (all, tail) =>
    tail === "\\" ? all : "\\ufffd",
  );
  return Buffer.from(text);
}

function send(event) {
  let body = encode(event);
  if (body.length > MESSAGE_LIMIT) body = encode(shrunk(event));
  const frame = Buffer.allocUnsafe(4 + body.length);
  frame.writeUInt32LE(body.length, 0);
  body.copy(frame, 4);
  write(frame);
}

function shrunk(event) {
  const small = { ...event };
  if (event.data) {
    const data = { ...event.data };
    const notes = [];
    for (const [mime, value] of Object.entries(data)) {
      const size = encode(value).length;
      if (size > MESSAGE_LIMIT / 8) {
        notes.push(`[${mime} of ${size} bytes left out: too large for one message]`);
        delete data[mime];
      }
    }
    data["text/plain"] = [...notes, ...(data["text/plain"] ? [data["text/plain"]] : [])].join("\n");
    small.data = data;
  }
  if (event.value) small.value = event.value.slice(0, 1 << 20);
  if (event.traceback) small.traceback = event.traceback.slice(-200).map((line) => line.slice(0, 10000));
  return small;
}

// Output of user code.

function redirect(stream, kind) {
  stream.write = (chunk, encoding, done) => {
    const text = typeof chunk === "string" ? chunk : Buffer.from(chunk).toString("utf8");
    for (let at = 0; at < text.length; at += TEXT_FRAME) {
      send({ ev: kind, id: cell, text: text.slice(at, at + TEXT_FRAME) });
    }
    const callback = typeof encoding === "function" ? encoding : done;
    if (callback) process.nextTick(callback);
    return true;
  };
}

function isPlain(value) {
  const proto = Object.getPrototypeOf(value);
  return Array.isArray(value) || proto === Object.prototype || proto === null;
}

// The forms of a value that need no call of user code.
function forms(value) {
  const data = { "text/plain": util.inspect(value) };
  if (value !== null && typeof value === "object" && isPlain(value)) {
    try {
      const json = JSON.stringify(value);
      if (json !== undefined) data["application/json"] = JSON.parse(json);
    } catch {
      // A cycle or a BigInt: there is no JSON form.
    }
  }
  return data;
}

function isCustom(value) {
  return value !== null && typeof value === "object" && (typeof value[BUNDLE] === "function" || typeof value.toHtml === "function");
}

async function bundle(value) {
  if (!isCustom(value)) return forms(value);
  if (typeof value[BUNDLE] === "function") return coded(await value[BUNDLE]());
  return { ...forms(value), "text/html": String(await value.toHtml()) };
}

function coded(data) {
  const result = {};
  for (const [mime, value] of Object.entries(data)) {
    if (ArrayBuffer.isView(value)) result[mime] = Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64");
    else if (typeof value === "string" || /json|^e2b\//.test(mime)) result[mime] = value ?? null;
    else result[mime] = String(value);
  }
  return result;
}

const displays = []; // not yet sent: `display` is synchronous, forms may not be

function display(value, mime) {
  const id = cell;
  const publish = (data) => send({ ev: "display", id, data, metadata: {}, display_id: null, update: false });
  if (mime !== undefined) publish(coded({ [mime]: value }));
  else if (isCustom(value)) displays.push(bundle(value).then(publish));
  else publish(forms(value));
}

// Errors.

class Interrupted extends Error {
  name = "Interrupted";
}

function described(error) {
  if (!(error instanceof Error) && !util.types.isNativeError(error)) {
    return { name: "Uncaught", value: util.inspect(error), traceback: [`Uncaught ${util.inspect(error)}`] };
  }
  const name = String(error.name ?? "Error");
  const value = String(error.message ?? "");
  const lines = String(error.stack ?? `${name}: ${value}`).split("\n");
  // From the first frame that is ours on, it is not the user's business.
  const end = lines.findIndex((line) => /^\s+at .*(node:inspector|belljar:context|node:vm)/.test(line));
  const traceback = end === -1 ? lines : lines.slice(0, end);
  return { name, value, traceback: traceback.length ? traceback : [`${name}: ${value}`] };
}

function stray(error) {
  if (running) running.strays.push(error);
  else process.stderr.write(described(error).traceback.join("\n") + "\n");
}

// Packages.

// Node remembers for good that a package has no `package.json`. So it is not asked for one that
// is not installed: it may be a moment later, by `npm install` in another process.
function isMissing(name) {
  if (/^(\.{0,2}\/|#|[\w+.-]+:)/.test(name) || module_.isBuiltin(name)) return false;
  const package_ = name.split("/", name.startsWith("@") ? 2 : 1).join("/");
  const places = searched.resolve.paths(name) ?? [];
  return !places.some((place) => ["", ".js", ".json", ".node", ".cjs", ".mjs"].some((end) => fs.existsSync(path.join(place, package_ + end))));
}

function refuseMissing(name, code) {
  if (typeof name !== "string" || !isMissing(name)) return;
  throw Object.assign(new Error(`Cannot find module '${name}'`), { code });
}

let searched; // Node's own `require`, for the current directory
let imports; // `import()` from the current directory, where Node can

function enterDirectory() {
  const cell = path.join(process.cwd(), "cell.js");
  const node = module_.createRequire(cell);
  const require_ = (name) => {
    refuseMissing(name, "MODULE_NOT_FOUND");
    return node(name);
  };
  const resolve = (name, options) => {
    if (!options?.paths) refuseMissing(name, "MODULE_NOT_FOUND");
    return node.resolve(name, options);
  };
  searched = node;
  globalThis.require = Object.assign(require_, node, { resolve: Object.assign(resolve, node.resolve) });
  const importModuleDynamically = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER;
  imports = importModuleDynamically && new vm.Script("(name) => import(name)", { filename: cell, importModuleDynamically }).runInThisContext();
}

// `import` in cells.

async function load_(name) {
  if (/^\.{0,2}\//.test(name)) return load(url.pathToFileURL(path.resolve(name)).href);
  refuseMissing(name, "ERR_MODULE_NOT_FOUND");
  return (imports ?? load)(name).catch((error) => {
    if (error.code !== "ERR_MODULE_NOT_FOUND" || /^\w+:/.test(name)) throw error;
    // The loader does not search where only `require` does; old ones search from where they started.
    return load(url.pathToFileURL(globalThis.require.resolve(name)).href);
  });
}

// Strings, templates and comments are matched first, so that they are skipped.
const IMPORTS =
  /(\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\[\s\S]|[^`\\])*`)|(?<![\w$.])import\s*\(|(?<=^|\n|;)([ \t]*)import\s+(?:([\w$*\s{},]+?)\s+from\s+)?(["'])([^"'\n]+)\4(?:\s+with\s*\{[^}]*\})?[ \t]*;?/g;

function rewritten(code) {
  if (!code.includes("import")) return code;
  return code.replace(IMPORTS, (all, skipped, indent, names, _quote, from) => {
    if (skipped !== undefined) return all;
    if (from === undefined) return "__import(";
    const loaded = `await __import(${JSON.stringify(from)})`;
    if (!names) return `${indent}${loaded};`;
    const star = names.match(/\*\s+as\s+([\w$]+)/);
    const braces = names.match(/\{([^}]*)\}/);
    const plain = names.replace(/\{[^}]*\}|\*\s+as\s+[\w$]+/, "").replace(/,/g, "").trim();
    const parts = [];
    if (plain) parts.push(`default: ${plain}`);
    if (braces) parts.push(braces[1].replace(/\s+as\s+/g, ": "));
    let result = "";
    if (star) result += `const ${star[1]} = ${loaded};`;
    if (parts.length) result += `const { ${parts.join(", ")} } = ${loaded};`;
    // Lines must keep their numbers.
    return indent + result + "\n".repeat(all.split("\n").length - 1);
  });
}

// TypeScript.

const PLACES = ["/usr/local/lib/node_modules", "/usr/lib/node_modules", "/usr/share/nodejs"];

// Imports that a cell does not use stay: the next one may.
function withoutTypes(code) {
  if (module_.stripTypeScriptTypes) return module_.stripTypeScriptTypes(code, { mode: "transform" });
  let sucrase;
  try {
    sucrase = require(require.resolve("sucrase", { paths: [process.cwd(), ...PLACES] }));
  } catch {
    throw new Error(`Node ${process.versions.node} cannot run TypeScript; 22.13 or later can, and so can any with sucrase installed`);
  }
  return sucrase.transform(code, { transforms: ["typescript"], disableESTransforms: true, keepUnusedImports: true }).code;
}

// Environment that a cell brings; the answer takes it back.
function lend(variables) {
  const before = Object.keys(variables).map((name) => [name, process.env[name]]);
  Object.assign(process.env, variables);
  return () => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  };
}

// Datasets. Where the host has put a manifest, `load_data` is there from the next
// cell on; its program is compiled when it is called.

let load_datasets = null;

const manifest = () => path.join(process.env.BELLJAR_DATA || "/data", "datasets.json");

function offer() {
  if (Object.hasOwn(globalThis, "load_data") || !fs.existsSync(manifest())) return;
  const load_data = (...names) => {
    load_datasets ??= new Function("require", `${config.datasets}\n//# sourceURL=belljar:context`)(require);
    const options = names.length && typeof names.at(-1) === "object" ? names.pop() : {};
    load_datasets(manifest(), names, options.reload === true);
  };
  Object.defineProperty(globalThis, "load_data", { value: load_data, writable: true, configurable: true, enumerable: false });
}

// Cells.

const session = new inspector.Session();
session.connect();
// Interrupts a cell that does not yield: SIGINT ends whatever runs inside.
const probe = new vm.Script("0", { filename: "belljar:context" });
const trigger = new vm.Script(`globalThis[Symbol.for("belljar.evaluate")]()`, { filename: "belljar:context" });

// Runs `script`; whether SIGINT ended it. Node also keeps a signal that came too
// late for one script and spends it on the next.
function wasInterrupted(script) {
  try {
    script.runInThisContext({ breakOnSigint: true });
    return false;
  } catch (error) {
    if (error.code !== "ERR_SCRIPT_EXECUTION_INTERRUPTED") throw error;
    return true;
  }
}

function evaluate(expression) {
  return new Promise((resolve) => {
    Object.defineProperty(globalThis, EVALUATE, {
      configurable: true,
      value: () =>
        session.post(
          "Runtime.evaluate",
          { expression, replMode: true, awaitPromise: true, objectGroup: "cell" },
          (failure, answer) => resolve(failure ? { error: new Error(failure.message) } : outcome(answer)),
        ),
    });
    running = { strays: [], stop: () => resolve({ error: new Interrupted("the cell was interrupted") }) };
    if (wasInterrupted(trigger) || wasInterrupted(probe)) running.stop();
  });
}

function outcome({ result, exceptionDetails }) {
  if (exceptionDetails) return { error: exceptionDetails.exception ? real(exceptionDetails.exception) : new Error(exceptionDetails.text) };
  return { value: real(result) };
}

// The value behind an inspector's description of it.
function real(remote) {
  if (remote.objectId === undefined) {
    if (remote.unserializableValue === undefined) return remote.type === "undefined" ? undefined : remote.value;
    const text = remote.unserializableValue;
    return text.endsWith("n") ? BigInt(text.slice(0, -1)) : Number(text);
  }
  let taken;
  Object.defineProperty(globalThis, TAKE, { configurable: true, value: (value) => void (taken = value) });
  session.post("Runtime.callFunctionOn", {
    objectId: remote.objectId,
    arguments: [{ objectId: remote.objectId }],
    functionDeclaration: `function (value) { globalThis[Symbol.for("belljar.take")](value); }`,
  });
  delete globalThis[TAKE];
  return taken;
}

function prepared(message, number) {
  const code = message.language === "typescript" ? withoutTypes(message.code) : message.code;
  return `${rewritten(code)}\n//# sourceURL=cell-${number}.js`;
}

async function run(message) {
  cell = message.id;
  const number = count + 1;
  if (message.store !== false) count = number;
  const giveBack = lend(message.env ?? {});
  offer();
  let ended;
  try {
    ended = await evaluate(prepared(message, number));
    // Rejections that nobody handles are known one turn later.
    await new Promise(setImmediate);
    await Promise.all(displays.splice(0));
    if (!("error" in ended) && ended.value !== undefined) {
      send({ ev: "result", id: cell, data: await bundle(ended.value), metadata: {}, count: number });
    }
  } catch (error) {
    ended = { error };
  }
  giveBack();
  session.post("Runtime.releaseObjectGroup", { objectGroup: "cell" });
  const strays = running ? running.strays : [];
  running = null;
  if (!("error" in ended) && strays.length) ended = { error: strays.shift() };
  strays.forEach(stray);
  if ("error" in ended) send({ ev: "error", id: cell, ...described(ended.error) });
  send({ ev: "done", id: cell, ok: !("error" in ended), count: number });
}

// Life.

function descriptors() {
  const found = [];
  for (const name of listed("/proc/self/fd")) {
    const fd = Number(name);
    if (fd <= DESCRIPTOR || own.has(fd)) continue;
    try {
      found.push({ fd, target: fs.readlinkSync(`/proc/self/fd/${fd}`) });
    } catch {
      // The listing's own descriptor.
    }
  }
  return found.sort((a, b) => a.fd - b.fd);
}

function listed(folder) {
  try {
    return fs.readdirSync(folder);
  } catch {
    return [];
  }
}

function wake({ env, unset, cwd }) {
  for (const name of unset ?? []) delete process.env[name];
  Object.assign(process.env, env ?? {});
  try {
    if (cwd) process.chdir(cwd);
  } catch (error) {
    return { ev: "awake", problem: `cannot enter ${cwd}: ${error.code}` };
  } finally {
    enterDirectory();
  }
  return { ev: "awake" };
}

function parked() {
  return {
    ev: "parked",
    cwd: process.cwd(),
    umask: process.umask(),
    threads: [],
    // V8's and libuv's own threads are counted too: Node always has some.
    tasks: listed("/proc/self/task").length,
    descriptors: descriptors(),
  };
}

async function handle(message) {
  if (message.op === "run") await run(message);
  else if (message.op === "wake") send(wake(message));
  else if (message.op === "park") send(parked());
}

function listen() {
  let unread = Buffer.alloc(0);
  let last = Promise.resolve();
  const socket = new net.Socket({ fd: DESCRIPTOR });
  socket.on("data", (chunk) => {
    unread = unread.length ? Buffer.concat([unread, chunk]) : chunk;
    while (unread.length >= 4 && unread.length >= 4 + unread.readUInt32LE(0)) {
      const end = 4 + unread.readUInt32LE(0);
      const message = JSON.parse(unread.toString("utf8", 4, end));
      unread = unread.subarray(end);
      last = last.then(() => handle(message));
    }
  });
  socket.on("error", () => process.reallyExit(0));
  socket.on("end", () => process.reallyExit(0));
}

process.argv.splice(1);
redirect(process.stdout, "stdout");
redirect(process.stderr, "stderr");
process.exit = (code) => {
  throw Object.assign(new Error(`process.exit(${code ?? ""}) was called; the context stays`), { name: "ProcessExit" });
};
process.on("SIGINT", () => running?.stop());
process.on("unhandledRejection", stray);
process.on("uncaughtException", stray);
for (const [name, value] of Object.entries({ display, __import: load_ })) {
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
}
enterDirectory();
listen();
send({ ev: "ready", language: "javascript", version: process.versions.node, pid: process.pid });
own = new Set(descriptors().map(({ fd }) => fd));
