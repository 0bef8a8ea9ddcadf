// `load_data` of JavaScript contexts: the same manifest and the same names as in
// Python (docs/datasets.md). Compiled when it is first called, with `require`;
// answers the function.
//
// Records are plain objects. Text of a CSV file becomes numbers and booleans by
// column, and only where no value would change: `007` stays text.

"use strict";
const fs = require("fs");
const path = require("path");
const { StringDecoder } = require("string_decoder");

const VERSION = 1;
const BLOCK = 1 << 20;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const NAME = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;

const loaded = new Set();

class Unreadable extends Error {}

function readManifest(file) {
  let given;
  try {
    given = JSON.parse(fs.readFileSync(file, "utf8"));
  } catch (error) {
    if (error.code === "ENOENT") throw new Error(`there are no datasets here: no ${file}`);
    throw new Error(`${file} cannot be read: ${error.message}`);
  }
  if (given.version !== VERSION) throw new Error(`${file} has version ${given.version}; this runtime reads version ${VERSION}`);
  for (const entry of given.datasets) {
    if (!NAME.test(entry.variable)) throw new Error(`${file} cannot be read: ${entry.variable} cannot be the name of a variable`);
    entry.file = path.join(path.dirname(file), entry.path);
    entry.options ??= {};
  }
  return given;
}

// Python's names of encodings. Those of the web take Latin-1 for Windows-1252.
function decoderOf(entry, bytes) {
  const name = entry.options.encoding ?? "utf-8";
  const isBig = name === "utf-16-be" || (name === "utf-16" && bytes[0] === 0xfe);
  if (name.startsWith("utf-16") || name === "cp1252") {
    const decoder = new TextDecoder(name === "cp1252" ? "windows-1252" : isBig ? "utf-16be" : "utf-16le");
    return { write: (part) => decoder.decode(part, { stream: true }), end: () => decoder.decode() };
  }
  return new StringDecoder(name === "latin-1" ? "latin1" : "utf8");
}

// What is compressed is unpacked as a whole.
function unpacked(entry) {
  const zlib = require("zlib");
  const unpack = { gzip: zlib.gunzipSync, zstd: zlib.zstdDecompressSync }[entry.options.compression];
  if (unpack === undefined) throw new Unreadable(`JavaScript has nothing here to unpack ${entry.name} with; load it in Python`);
  return unpack(fs.readFileSync(entry.file));
}

function* unpackedBlocks(entry) {
  const bytes = unpacked(entry);
  const decoder = decoderOf(entry, bytes);
  for (let from = 0; from < bytes.length; from += BLOCK) {
    const text = decoder.write(bytes.subarray(from, from + BLOCK));
    yield from === 0 ? text.replace(/^\ufeff/, "") : text;
  }
  yield decoder.end();
}

// Text by blocks: a string of V8 has at most 512 MB.
function* blocks(entry) {
  if (entry.options.compression != null) return yield* unpackedBlocks(entry);
  let decoder;
  const bytes = Buffer.allocUnsafe(BLOCK);
  const descriptor = fs.openSync(entry.file, "r");
  try {
    let isFirst = true;
    for (let count; (count = fs.readSync(descriptor, bytes, 0, BLOCK, null)) > 0; ) {
      decoder ??= decoderOf(entry, bytes);
      const text = decoder.write(bytes.subarray(0, count));
      if (text === "") continue;
      yield isFirst ? text.replace(/^\ufeff/, "") : text;
      isFirst = false;
    }
    if (decoder !== undefined) yield decoder.end();
  } finally {
    fs.closeSync(descriptor);
  }
}

function* lines(entry) {
  let rest = "";
  for (const block of blocks(entry)) {
    const parts = (rest + block).split("\n");
    rest = parts.pop();
    yield* parts;
  }
  if (rest) yield rest;
}

function* jsonRecords(entry) {
  for (const line of lines(entry)) if (line.trim()) yield JSON.parse(line);
}

// The fields of each row, quoted as RFC 4180 has it. Fields are cut out of the
// text: put together character by character they would take ten times its size.
function* csvRows(entry) {
  const delimiter = entry.options.delimiter ?? ",";
  let row = [];
  let field = "";
  let quoted = false;
  // A quote at the end of a block may be the first of two.
  let maybeClosed = false;
  for (const block of blocks(entry)) {
    let from = 0;
    for (let at = 0; at < block.length; at++) {
      const character = block[at];
      if (maybeClosed) {
        maybeClosed = false;
        from = at;
        if (character === '"') continue;
        quoted = false;
      }
      if (quoted) {
        if (character !== '"') continue;
        maybeClosed = true;
        field += block.slice(from, at);
        from = at + 1;
      } else if (character === delimiter || character === "\n") {
        field += block.slice(from, at);
        from = at + 1;
        row.push(character === "\n" && field.endsWith("\r") ? field.slice(0, -1) : field);
        field = "";
        if (character === "\n") {
          if (row.length > 1 || row[0] !== "") yield row;
          row = [];
        }
      } else if (character === '"' && from === at && field === "") {
        quoted = true;
        from = at + 1;
      }
    }
    if (!maybeClosed) field += block.slice(from);
  }
  if (field !== "" || row.length) yield [...row, field];
}

function* csvRecords(entry) {
  let names = entry.options.columns;
  let isHeader = entry.options.header ?? true;
  for (const row of csvRows(entry)) {
    if (isHeader) {
      names ??= row;
      isHeader = false;
    } else yield Object.fromEntries(names.map((name, at) => [name, row[at] ?? null]));
  }
}

function typed(entry, records) {
  const text = new Set(entry.options.text ?? []);
  const commas = new Set(entry.options.decimal_commas ?? []);
  const fromCommas = (value) => Number(value.replaceAll(".", "").replace(",", "."));
  for (const name of Object.keys(records[0] ?? {})) {
    const values = records.map((record) => record[name]).filter((value) => value !== null && value !== "");
    let convert = null;
    if (text.has(name) || values.length === 0) convert = null;
    else if (commas.has(name)) convert = values.every((value) => Number.isFinite(fromCommas(value))) ? fromCommas : null;
    else if (values.every((value) => NUMBER.test(value) && (!/^-?\d+$/.test(value) || Number.isSafeInteger(Number(value))))) convert = Number;
    else if (values.every((value) => /^(?:true|false)$/i.test(value))) convert = (value) => value.toLowerCase() === "true";
    for (const record of records) {
      if (record[name] === "") record[name] = null;
      else if (convert && record[name] !== null) record[name] = convert(record[name]);
    }
  }
  return records;
}

function read(entry) {
  switch (entry.format) {
    case "json": {
      let data = JSON.parse([...blocks(entry)].join(""));
      for (const key of entry.options.records ?? []) data = data[key];
      return data;
    }
    case "jsonl":
      return [...jsonRecords(entry)];
    case "csv":
      return typed(entry, [...csvRecords(entry)]);
    default:
      throw new Unreadable(`JavaScript has nothing here to read ${entry.format} with; load ${entry.name} in Python`);
  }
}

// What is too large to load is read record by record: `for (const event of events)`.
class Reader {
  #entry;
  constructor(entry) {
    this.#entry = entry;
    this.path = entry.file;
    this.rows = entry.rows ?? null;
  }
  [Symbol.iterator]() {
    return this.#entry.format === "jsonl" ? jsonRecords(this.#entry) : csvRecords(this.#entry);
  }
}

const counted = (number, word) => `${number.toLocaleString("en-US")} ${word}${number === 1 ? "" : "s"}`;

function shape(data) {
  if (Array.isArray(data)) {
    const record = data[0];
    const isTable = record !== null && typeof record === "object" && !Array.isArray(record);
    return isTable ? `array, ${counted(data.length, "record")} × ${counted(Object.keys(record).length, "field")}` : `array of ${data.length.toLocaleString("en-US")}`;
  }
  return data !== null && typeof data === "object" ? `object, ${counted(Object.keys(data).length, "key")}` : typeof data;
}

function size(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

function origin(entry) {
  const parts = [entry.name];
  if (entry.bytes != null) parts.push(size(entry.bytes));
  if (entry.strategy === "sampled") parts.push(entry.sentence || "a sample");
  return `  (${parts.join(", ")})`;
}

function howToGoOn(entry, error) {
  if (error.code === "ENOENT") return `there is no file ${entry.file}; go on without it and say so in the result`;
  if (error instanceof Unreadable) return error.message;
  const by = entry.format === "json" ? "open it and read what is there" : "read it line by line and skip bad lines";
  return `${error.name}: ${error.message.slice(0, 160)}; ${by}: ${entry.file}`;
}

function define(name, value) {
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: true });
}

function fetch(entry) {
  const data = read(entry);
  define(entry.variable, data);
  loaded.add(entry.variable);
  return data;
}

function later(entry) {
  const name = entry.variable;
  Object.defineProperty(globalThis, name, {
    configurable: true,
    enumerable: true,
    get: () => fetch(entry),
    set: (value) => define(name, value),
  });
}

function place(manifest, entry, reload) {
  const name = entry.variable;
  const rows = entry.rows == null ? "" : `, ${counted(entry.rows, "row")}`;
  // A getter is not asked: that would load.
  const there = Object.getOwnPropertyDescriptor(globalThis, name);
  if (loaded.has(name) && there !== undefined && "value" in there && !reload) return `${shape(there.value)}, loaded before`;
  if (!["parquet", "excel"].includes(entry.format) && (entry.strategy === "lazy" || entry.strategy === "converted")) {
    if (entry.format !== "json" && manifest.budget != null && entry.memory > manifest.budget) {
      define(name, new Reader(entry));
      return `too large to load whole${rows}: for (const record of ${name}) …${origin(entry)}`;
    }
    later(entry);
    return `loaded when first used${rows}${origin(entry)}`;
  }
  try {
    return shape(fetch(entry)) + origin(entry);
  } catch (error) {
    return `not loaded: ${howToGoOn(entry, error)}`;
  }
}

function load(file, names, reload) {
  const manifest = readManifest(file);
  const chosen = manifest.datasets.filter(({ variable, name }) => !names.length || names.includes(variable) || names.includes(name));
  const width = Math.max(0, ...chosen.map(({ variable }) => variable.length));
  for (const entry of chosen) console.log(`${entry.variable.padEnd(width)}  ${place(manifest, entry, reload)}`);
  const known = manifest.datasets.map(({ variable }) => variable);
  for (const name of names) {
    if (!chosen.some((entry) => entry.variable === name || entry.name === name)) console.log(`${name}: no such dataset; there are ${known.join(", ")}`);
  }
}

return load;
