// Files of a sandbox: directories, previews, downloads and uploads.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, send } from "../api/client";
import type { Entry } from "../api/types";
import { bytes, moment } from "../format";
import { setQuery, useLocation } from "../router";
import { Loaded, Problem } from "../ui/basics";
import { Download, Preview } from "../ui/file";
import type { FileSource } from "../ui/file";

const HOME = "/home/user";

const nameOf = (path: string) => path.slice(path.lastIndexOf("/") + 1);
const parentOf = (path: string) => path.slice(0, path.lastIndexOf("/")) || "/";

const source = (id: string, entry: Entry): FileSource => ({
  name: nameOf(entry.path),
  path: "/v1/sandboxes/{sandbox}/files/content",
  options: { params: { sandbox: id }, query: { path: entry.path } },
  bytes: entry.bytes,
  version: entry.modified_at,
});

/** The directories above a path, each a link. */
function Crumbs({ path }: { path: string }) {
  const parts = path.split("/").filter(Boolean);
  const open = (to: string) => () => setQuery({ dir: to, file: "" });
  return (
    <nav aria-label="Directory" className="mono">
      <button className="link" onClick={open("/")}>/</button>
      {parts.map((part, at) => (
        <span key={at}><button className="link" onClick={open(`/${parts.slice(0, at + 1).join("/")}`)}>{part}</button>/</span>
      ))}
    </nav>
  );
}

function Upload({ id, directory }: { id: string; directory: string }) {
  const queries = useQueryClient();
  const [error, setError] = useState<unknown>();
  const upload = async (files: FileList) => {
    try {
      for (const file of files) {
        const path = `${directory === "/" ? "" : directory}/${file.name}`;
        await send("put", "/v1/sandboxes/{sandbox}/files/content", { params: { sandbox: id }, query: { path }, body: file });
      }
      setError(undefined);
      await queries.invalidateQueries({ queryKey: ["files", id] });
    } catch (cause) {
      setError(cause);
    }
  };
  return (
    <>
      <label className="button">Upload<input className="hidden" type="file" multiple onChange={(event) => event.target.files && void upload(event.target.files)} /></label>
      {error !== undefined && <Problem error={error} what="Cannot upload" />}
    </>
  );
}

function Rows({ entries }: { entries: Entry[] }) {
  const sorted = entries.toSorted((a, b) => Number(b.kind === "directory") - Number(a.kind === "directory") || a.path.localeCompare(b.path));
  return (
    <table>
      <thead><tr><th scope="col">Name</th><th scope="col" className="num">Size</th><th scope="col" className="mid">Mode</th><th scope="col" className="num wide">Changed</th></tr></thead>
      <tbody>
        {sorted.map((entry) => (
          <tr key={entry.path}>
            <td className="mono">
              {entry.kind === "directory"
                ? <button className="link" onClick={() => setQuery({ dir: entry.path, file: "" })}>{nameOf(entry.path)}/</button>
                : entry.kind === "file"
                  ? <button className="link" onClick={() => setQuery({ file: entry.path, dir: parentOf(entry.path) })}>{nameOf(entry.path)}</button>
                  : <>{nameOf(entry.path)} <span className="muted">{entry.target ? `→ ${entry.target}` : entry.kind}</span></>}
            </td>
            <td className="num">{entry.kind === "file" && bytes(entry.bytes)}</td>
            <td className="mono mid">{entry.mode}</td>
            <td className="num wide muted">{moment(entry.modified_at)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Opened({ id, path }: { id: string; path: string }) {
  const query = useQuery({
    queryKey: ["stat", id, path],
    queryFn: ({ signal }) => api("get", "/v1/sandboxes/{sandbox}/files/stat", { params: { sandbox: id }, query: { path }, signal }),
  });
  return (
    <div className="card">
      <Loaded query={query} what={path}>
        {(entry) => (
          <>
            <div className="bar"><Download file={source(id, entry)} /></div>
            <Preview file={source(id, entry)} />
          </>
        )}
      </Loaded>
    </div>
  );
}

export function Files({ id }: { id: string }) {
  const { query: address } = useLocation();
  const file = address.get("file");
  const directory = address.get("dir") ?? (file ? parentOf(file) : HOME);
  const query = useQuery({
    queryKey: ["files", id, directory],
    queryFn: ({ signal }) => api("get", "/v1/sandboxes/{sandbox}/files", { params: { sandbox: id }, query: { path: directory, depth: 1 }, signal }),
    refetchInterval: 5000,
  });
  return (
    <div className={file ? "split" : undefined}>
      <div>
        <div className="bar"><div className="grow"><Crumbs path={directory} /></div><Upload id={id} directory={directory} /></div>
        <Loaded query={query} what={directory}>
          {({ items }) => items.length === 0 ? <p className="muted">This directory is empty.</p> : <Rows entries={items} />}
        </Loaded>
      </div>
      {file && <Opened id={id} path={file} />}
    </div>
  );
}
