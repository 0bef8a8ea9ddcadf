// One sandbox: facts, files, connections, calls, and its end.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, api } from "../api/client";
import type { Ended, Sandbox } from "../api/types";
import { bytes, count, millis, moment, until } from "../format";
import { Link, navigate, setQuery, useLocation } from "../router";
import { Empty, Facts, Loaded, Loading, Problem, StateOf, Title, useNow } from "../ui/basics";
import { Dialog, Field, numeral } from "../ui/dialog";
import { Connections } from "./connections";
import { Files } from "./files";

const AGAIN = 3000;

function Actions({ sandbox, onChange }: { sandbox: Sandbox; onChange: () => void }) {
  const [shown, show] = useState<"extend" | "end">();
  const [error, setError] = useState<unknown>();
  const params = { sandbox: sandbox.id };
  const act = (what: () => Promise<unknown>) => () => {
    what().then(() => (setError(undefined), onChange()), setError);
  };
  const fork = async () => {
    const { items } = await api("post", "/v1/sandboxes/{sandbox}/fork", { params, body: { count: 1, timeout_seconds: 300 } });
    const [made] = items;
    if (made && "problem" in made) throw new ApiError(0, made.problem.code, made.problem.message, made.problem.hint);
    if (made && "sandbox" in made) navigate(`/sandboxes/${made.sandbox.id}`);
  };
  return (
    <>
      {sandbox.state === "running" ? (
        <>
          <button onClick={act(() => api("post", "/v1/sandboxes/{sandbox}/pause", { params, body: {} }))}>Pause</button>
          <button onClick={act(fork)} title="A new sandbox with the same memory and files">Fork</button>
        </>
      ) : (
        <button onClick={act(() => api("post", "/v1/sandboxes/{sandbox}/resume", { params, body: {} }))}>Resume</button>
      )}
      <button onClick={() => show("extend")}>Extend…</button>
      <button className="danger" onClick={() => show("end")}>End…</button>
      {error !== undefined && <Problem error={error} />}
      {shown === "extend" && (
        <Dialog title="Set the deadline" action="Set" onClose={() => show(undefined)} onAction={async (form) => {
          await api("patch", "/v1/sandboxes/{sandbox}", { params, body: { timeout_seconds: Math.round((numeral(form, "minutes") ?? 0) * 60) } });
          onChange();
        }}>
          <Field label="Minutes from now"><input name="minutes" type="number" min={1} defaultValue={30} required autoFocus /></Field>
        </Dialog>
      )}
      {shown === "end" && (
        <Dialog title="End this sandbox?" action="End it" danger onClose={() => show(undefined)} onAction={async () => {
          await api("delete", "/v1/sandboxes/{sandbox}", { params });
          onChange();
        }}>
          <p>Its files and processes are deleted.</p>
        </Dialog>
      )}
    </>
  );
}

function Calls({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ["calls", id],
    queryFn: ({ signal }) => api("get", "/v1/sandboxes/{sandbox}/calls", { params: { sandbox: id }, signal }),
    refetchInterval: AGAIN,
  });
  const [ending, setEnding] = useState<{ id: number; number: number; argv: string[] }>();
  return (
    <>
      <Loaded query={query} what="calls">
        {({ items }) => items.length === 0 ? <p className="muted">No call is running.</p> : (
          <table>
            <thead><tr><th scope="col">Call</th><th scope="col">Command</th><th scope="col" /></tr></thead>
            <tbody>
              {items.map((call) => (
                <tr key={call.id}>
                  <td className="num"><button className="link" onClick={() => setQuery({ tab: "connections", call: String(call.number) })}>{call.number}</button></td>
                  <td className="mono">{call.argv.join(" ")}</td>
                  <td><button className="danger" aria-label={`End call ${call.number}…`} onClick={() => setEnding(call)}>End…</button></td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Loaded>
      {ending && (
        <Dialog title={`End call ${ending.number}?`} action="End it" danger onClose={() => setEnding(undefined)} onAction={async () => {
          await api("delete", "/v1/sandboxes/{sandbox}/calls/{call}", { params: { sandbox: id, call: ending.id } });
          await query.refetch();
        }}>
          <p className="mono">{ending.argv.join(" ")}</p>
        </Dialog>
      )}
    </>
  );
}

function FactsOf({ sandbox }: { sandbox: Sandbox }) {
  const { limits } = sandbox;
  const network = useQuery({
    queryKey: ["network", sandbox.id],
    queryFn: ({ signal }) => api("get", "/v1/sandboxes/{sandbox}/network", { params: { sandbox: sandbox.id }, signal }),
  });
  const reach = network.data?.network.reach;
  return (
    <div className="split">
      <div className="card">
        <h2>Sandbox</h2>
        <Facts rows={[
          ["Id", <span className="mono">{sandbox.id}</span>],
          ["Template", sandbox.template],
          ["Tier", sandbox.tier],
          ["Profile", sandbox.profile],
          ["Started", moment(sandbox.started_at)],
          ["Deadline", `${moment(sandbox.deadline)}, then ${sandbox.on_timeout}`],
          ["Memory", bytes(limits.memory_bytes)],
          ["CPU cores", limits.cpu_millis / 1000],
          ["Disk", bytes(limits.disk_bytes)],
          ["Processes", count(limits.pids)],
          ["Time of a call", millis(limits.wall_ms)],
          ["Labels", Object.entries(sandbox.metadata).map(([name, value]) => <div key={name}>{name}: {name === "run" || name.endsWith(".run") ? <Link to={`/runs/${value}`}>{value}</Link> : value}</div>)],
        ]} />
      </div>
      <div>
        <div className="card"><h2>Calls that run</h2><Calls id={sandbox.id} /></div>
        <div className="card">
          <h2>Network</h2>
          {network.error && <Problem error={network.error} what="Cannot load the network policy" />}
          {network.data && (
            <Facts rows={[
              ["Reach", typeof reach === "object" ? reach.allow.map((rule) => <div key={rule.host} className="mono">{rule.host}</div>) : (reach ?? "none")],
              ["Denied hosts", network.data.network.deny_hosts?.join(", ")],
              ["Indexes", network.data.indexes.map((it) => <div key={it.url} className="mono">{it.url}</div>)],
              ["Operations", network.data.operations.join(", ") || "none"],
            ]} />
          )}
        </div>
      </div>
    </div>
  );
}

const TABS = ["facts", "files", "connections"];

function Live({ sandbox, onChange }: { sandbox: Sandbox; onChange: () => void }) {
  const { query } = useLocation();
  const tab = query.get("tab") ?? (query.get("file") ? "files" : "facts");
  const now = useNow();
  return (
    <>
      <Title title={`Sandbox ${sandbox.id.slice(0, 8)}`}>
        <StateOf name={sandbox.state} />
        <span className="muted">{Date.parse(sandbox.deadline) > now ? `ends ${until(sandbox.deadline, now)}` : "past its deadline"}</span>
        <Actions sandbox={sandbox} onChange={onChange} />
      </Title>
      <div className="tabs" role="tablist" aria-label="Parts of the sandbox">
        {TABS.map((it) => (
          <button key={it} role="tab" id={`tab-${it}`} aria-controls="panel" aria-selected={tab === it} onClick={() => setQuery({ tab: it, file: "" })}>{it[0]?.toUpperCase()}{it.slice(1)}</button>
        ))}
      </div>
      <div role="tabpanel" id="panel" aria-labelledby={`tab-${tab}`}>
        {tab === "files" ? <Files id={sandbox.id} /> : tab === "connections" ? <Connections id={sandbox.id} live /> : <FactsOf sandbox={sandbox} />}
      </div>
    </>
  );
}

function Over({ ended }: { ended: Ended }) {
  return (
    <>
      <Title title={`Sandbox ${ended.id.slice(0, 8)}`}><StateOf name="ended" /></Title>
      <div className="card">
        <h2>Ended: <span className="badge">{ended.reason}</span></h2>
        <Facts rows={[
          ["Id", <span className="mono">{ended.id}</span>],
          ["Template", ended.template],
          ["Tier", ended.tier],
          ["Started", moment(ended.started_at)],
          ["Ended", moment(ended.ended_at)],
          ["Lived", millis(Date.parse(ended.ended_at) - Date.parse(ended.started_at))],
        ]} />
      </div>
      <h2>Connections</h2>
      <Connections id={ended.id} live={false} />
    </>
  );
}

/** A sandbox, or its end if it is over. */
async function find(id: string, signal: AbortSignal): Promise<{ sandbox: Sandbox } | { ended: Ended }> {
  try {
    return { sandbox: await api("get", "/v1/sandboxes/{sandbox}", { params: { sandbox: id }, signal }) };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    const { items } = await api("get", "/v1/ended", { query: { limit: 100 }, signal });
    const ended = items.find((it) => it.id === id);
    if (!ended) throw error;
    return { ended };
  }
}

export default function SandboxPage({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ["sandbox", id],
    queryFn: ({ signal }) => find(id, signal),
    refetchInterval: (it) => (it.state.data && "ended" in it.state.data ? false : AGAIN),
  });
  if (query.isPending) return <Loading what="Loading the sandbox" />;
  if (query.error && !query.data) {
    if (query.error instanceof ApiError && query.error.status === 404) {
      return (
        <Empty title="There is no such sandbox">
          <p>It is another tenant's, or it ended long ago. <Link to="/sandboxes?show=ended">Latest ended sandboxes</Link></p>
        </Empty>
      );
    }
    return <Problem error={query.error} what="Cannot load the sandbox" retry={() => void query.refetch()} />;
  }
  const found = query.data;
  return "sandbox" in found ? <Live sandbox={found.sandbox} onChange={() => void query.refetch()} /> : <Over ended={found.ended} />;
}
