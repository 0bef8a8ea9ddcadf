// Uploaded files for runs, and the description of each as a model gets it.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../api/client";
import { bytes, count, distance, moment } from "../format";
import { Link, setQuery, useLocation } from "../router";
import { Empty, Loaded, Meter, Problem, Title, useNow } from "../ui/basics";
import { Output } from "../ui/code";
import { Dialog } from "../ui/dialog";

function Description({ data }: { data: string }) {
  const query = useQuery({
    queryKey: ["description", data],
    queryFn: ({ signal }) => api("get", "/v1/data/{data}/description", { params: { data }, signal }),
    staleTime: Infinity,
  });
  return (
    <div className="card">
      <h2>Description</h2>
      <Loaded query={query} what="the description">{({ text }) => <Output text={text} name="Description of the file" joined={false} />}</Loaded>
    </div>
  );
}

function Upload() {
  const queries = useQueryClient();
  const [error, setError] = useState<unknown>();
  const upload = async (files: FileList) => {
    try {
      for (const file of files) await api("post", "/v1/data", { body: file as never });
      setError(undefined);
      await queries.invalidateQueries({ queryKey: ["data"] });
    } catch (cause) {
      setError(cause);
    }
  };
  return (
    <>
      <label className="button primary">Upload<input className="hidden" type="file" multiple onChange={(event) => event.target.files && void upload(event.target.files)} /></label>
      {error !== undefined && <Problem error={error} what="Cannot upload" />}
    </>
  );
}

export default function DataPage() {
  const now = useNow(5000);
  const queries = useQueryClient();
  const opened = useLocation().query.get("file");
  const [deleting, setDeleting] = useState<string>();
  const query = useQuery({ queryKey: ["data"], queryFn: ({ signal }) => api("get", "/v1/data", { signal }), refetchInterval: 10_000 });
  return (
    <>
      <Title title="Data"><Upload /></Title>
      <Loaded query={query} what="your files">
        {({ items, bytes: used, most_bytes: most }) => items.length === 0 ? (
          <Empty title="There are no files"><p>Files are uploaded here, with a <Link to="/runs/new">new run</Link>, or with <code>POST /v1/data</code>.</p></Empty>
        ) : (
          <div className={opened ? "split" : undefined}>
            <div>
              <Meter name={`${count(items.length)} files`} used={used} bound={most} show={bytes} />
              <table>
                <thead><tr><th scope="col">Digest</th><th scope="col" className="num">Size</th><th scope="col" className="num mid">Kept</th><th scope="col"><span className="hidden">Actions</span></th></tr></thead>
                <tbody>
                  {items.map((it) => (
                    <tr key={it.sha256}>
                      <td className="mono"><button className="link" title={it.sha256} onClick={() => setQuery({ file: it.sha256 })}>{it.sha256.slice(0, 16)}</button></td>
                      <td className="num">{bytes(it.bytes)}</td>
                      <td className="num mid"><time title={moment(it.kept_at)}>{distance(it.kept_at, now)} ago</time></td>
                      <td className="num"><button className="danger" aria-label={`Delete ${it.sha256.slice(0, 16)}`} onClick={() => setDeleting(it.sha256)}>Delete…</button></td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            {opened && <Description data={opened} />}
          </div>
        )}
      </Loaded>
      {deleting && (
        <Dialog title="Delete this file?" action="Delete" danger onClose={() => setDeleting(undefined)} onAction={async () => {
          await api("delete", "/v1/data/{data}", { params: { data: deleting } });
          setQuery({ file: "" });
          await queries.invalidateQueries({ queryKey: ["data"] });
        }}>
          <p>Runs that have not read it yet fail.</p>
        </Dialog>
      )}
    </>
  );
}
