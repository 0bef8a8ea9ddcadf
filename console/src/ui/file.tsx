// A file of the API: a picture, a table, text, or a download.

import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { blob } from "../api/client";
import type { Options } from "../api/client";
import { bytes, count } from "../format";
import { Loading, Problem } from "./basics";
import { Output } from "./code";
import { Markdown } from "./markdown";

const SHOWN = 2_000_000;
// Previews are made without a click: what is drawn is bounded.
const MAX_TEXT_BYTES = 100_000;
const ROWS = 30;
const COLUMNS = 50;
const MAX_CELL_CHARS = 500;

type FilePath = Parameters<typeof blob>[0];
export interface FileSource {
  name: string;
  path: FilePath;
  options: Options;
  bytes: number;
  /** Names the content: a digest, or a path and a time. */
  version: string;
  mediaType?: string | null;
}

const TEXTS = /^text\/|json|xml|yaml|toml|javascript|x-sh/;
const TEXT_NAMES = /\.(txt|log|md|csv|tsv|json|jsonl|py|js|ts|rs|sh|toml|ya?ml|xml|html|css|sql|ini|cfg|env)$|^[^.]+$/i;
const PICTURES: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", svg: "image/svg+xml" };

const extension = (name: string) => name.slice(name.lastIndexOf(".") + 1).toLowerCase();

function kindOf(file: FileSource) {
  if (file.bytes > SHOWN) return "other";
  if (PICTURES[extension(file.name)] || file.mediaType?.startsWith("image/")) return "picture";
  if (file.mediaType ? TEXTS.test(file.mediaType) : TEXT_NAMES.test(file.name)) return "text";
  return "other";
}

/** Saves a file. The browser gets its bytes from this page, so that the key stays in a header. */
export async function download(file: Pick<FileSource, "name" | "path" | "options">) {
  save(file.name, await blob(file.path, file.options));
}

export function save(name: string, content: Blob) {
  const address = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Rows of text with commas or tabs. Quoted cells may have both. */
export function readTable(text: string, separator: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let quoted = false;
  for (let at = 0; at < text.length && rows.length <= ROWS; at += 1) {
    const letter = text[at] ?? "";
    if (quoted && letter === '"' && text[at + 1] === '"') (cell += '"'), (at += 1);
    else if (letter === '"') quoted = !quoted;
    else if (!quoted && letter === separator) row.push(cell), (cell = "");
    else if (!quoted && letter === "\n") rows.push([...row, cell.replace(/\r$/, "")]), (row = []), (cell = "");
    else cell += letter;
  }
  if (cell !== "" || row.length > 0) rows.push([...row, cell]);
  return rows;
}

const cut = (cell = "") => (cell.length > MAX_CELL_CHARS ? `${cell.slice(0, MAX_CELL_CHARS)}…` : cell);

export function Table({ text, separator }: { text: string; separator: string }) {
  const [all = [], ...rows] = readTable(text, separator);
  const head = all.slice(0, COLUMNS);
  const lines = text.trimEnd().split("\n").length - 1;
  const isNumber = (at: number) => rows.every((row) => row[at] === "" || !Number.isNaN(Number(row[at])));
  return (
    <>
      <div className="scroll" tabIndex={0} role="group" aria-label="Table">
        <table>
          <thead><tr>{head.map((cell, at) => <th key={at} scope="col" className={isNumber(at) ? "num" : undefined}>{cut(cell)}</th>)}</tr></thead>
          <tbody>
            {rows.slice(0, ROWS).map((row, at) => (
              <tr key={at}>{head.map((_, column) => <td key={column} className={isNumber(column) ? "num" : undefined}>{cut(row[column])}</td>)}</tr>
            ))}
          </tbody>
        </table>
      </div>
      {all.length > COLUMNS && <p className="muted">The first {COLUMNS} of {count(all.length)} columns</p>}
      {lines > ROWS && <p className="muted">The first {ROWS} of {count(lines)} rows</p>}
    </>
  );
}

function Picture({ content, file }: { content: Blob; file: FileSource }) {
  const [address, setAddress] = useState<string>();
  useEffect(() => {
    // As the source of an image, SVG cannot run scripts or load anything.
    const type = PICTURES[extension(file.name)] ?? file.mediaType ?? content.type;
    const made = URL.createObjectURL(new Blob([content], { type }));
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [content, file.name, file.mediaType]);
  return address ? <img src={address} alt={file.name} /> : null;
}

/** The beginning of a text, without the part of a character at its end. */
export async function beginning(content: Blob) {
  const isCut = content.size > MAX_TEXT_BYTES;
  const text = await content.slice(0, MAX_TEXT_BYTES).text();
  return { text: isCut ? text.replace(/\ufffd$/, "") : text, isCut };
}

function Text({ content, file }: { content: Blob; file: FileSource }) {
  const [read, setRead] = useState<{ text: string; isCut: boolean }>();
  const kind = extension(file.name);
  const isTable = kind === "csv" || kind === "tsv";
  useEffect(() => {
    // A table is bounded by its rows and columns, and counts all rows.
    void (isTable ? content.text().then((text) => ({ text, isCut: false })) : beginning(content)).then(setRead);
  }, [content, isTable]);
  if (!read) return null;
  const { text, isCut } = read;
  if (isTable) return <Table text={text} separator={kind === "csv" ? "," : "\t"} />;
  return (
    <>
      {kind === "md" ? <Markdown text={text} /> : <Output text={text} name={file.name} joined={false} />}
      {isCut && <p className="notice warn">Only the first {bytes(MAX_TEXT_BYTES)} of {bytes(content.size)} are shown.</p>}
    </>
  );
}

/** The content of a file, if a page can show it. */
export function Preview({ file }: { file: FileSource }) {
  const kind = kindOf(file);
  const { data, error, refetch } = useQuery({
    queryKey: ["file", file.path, file.options.params, file.options.query, file.version],
    queryFn: ({ signal }) => blob(file.path, { ...file.options, signal }),
    enabled: kind !== "other",
    staleTime: Infinity,
  });
  if (kind === "other") return <p className="muted">{file.bytes > SHOWN ? "Too large to show here." : "No preview for this kind of file."}</p>;
  if (error) return <Problem error={error} what={`Cannot read ${file.name}`} retry={() => void refetch()} />;
  if (!data) return <Loading what={`Loading ${file.name}`} />;
  return kind === "picture" ? <Picture content={data} file={file} /> : <Text content={data} file={file} />;
}

export function Download({ file }: { file: FileSource }) {
  const [error, setError] = useState<unknown>();
  return (
    <>
      <button className="link" onClick={() => void download(file).catch(setError)} aria-label={`Download ${file.name}`}>{file.name}</button>
      <span className="muted"> {bytes(file.bytes)}</span>
      {error !== undefined && <Problem error={error} what={`Cannot download ${file.name}`} />}
    </>
  );
}
