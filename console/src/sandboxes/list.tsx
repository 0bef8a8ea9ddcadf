// Sandboxes that live, and those that ended, with their reasons.

import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../api/client";
import { every } from "../api/poll";
import type { Sandbox } from "../api/types";
import { bytes, count, distance, millis, moment } from "../format";
import { Link, setQuery, useLocation } from "../router";
import { Empty, Loaded, Loading, Problem, StateOf, Title, useNow } from "../ui/basics";
import { Dialog } from "../ui/dialog";

const AGAIN = 3000;
const PAGE = 100;

/** A run's sandbox names its run. */
const labels = (sandbox: Sandbox) => Object.entries(sandbox.metadata).map(([name, value]) => `${name}=${value}`).join(" ");

function fits(sandbox: Sandbox, text: string) {
  return [sandbox.id, sandbox.template, sandbox.tier, labels(sandbox)].join(" ").toLowerCase().includes(text.toLowerCase());
}

/** Ends the chosen sandboxes one after another, and says which could not be ended. */
async function endAll(ids: string[]) {
  const failures: string[] = [];
  for (const id of ids) {
    await api("delete", "/v1/sandboxes/{sandbox}", { params: { sandbox: id } }).catch((error: Error) => failures.push(`${id}: ${error.message}`));
  }
  if (failures.length > 0) throw new Error(failures.join("; "));
}

function Live() {
  const { query: address } = useLocation();
  const text = address.get("q") ?? "";
  const now = useNow();
  const queries = useQueryClient();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [ending, setEnding] = useState(false);
  const query = useInfiniteQuery({
    queryKey: ["sandboxes"],
    queryFn: ({ signal, pageParam }) => api("get", "/v1/sandboxes", { query: { limit: PAGE, after: pageParam }, signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    // All loaded pages are read again, so more of them are read less often.
    refetchInterval: (it) => every(AGAIN * (it.state.data?.pages.length || 1))(it),
  });
  if (!query.data) {
    return query.error ? <Problem error={query.error} what="Cannot load sandboxes" retry={() => void query.refetch()} /> : <Loading what="Loading sandboxes" />;
  }
  const all = query.data.pages.flatMap((page) => page.items);
  const shown = all.filter((it) => fits(it, text));
  const ids = shown.filter((it) => chosen.has(it.id)).map((it) => it.id);
  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  if (all.length === 0) {
    return <Empty title="No sandbox is alive"><p>Runs create sandboxes, and so do clients of <code>POST /v1/sandboxes</code>.</p></Empty>;
  }
  return (
    <>
      <div className="bar">
        <input data-filter type="search" placeholder="Filter  /" aria-label="Filter by id, template, tier or label" value={text} onChange={(event) => setQuery({ q: event.target.value })} />
        <span className="muted" role="status">{count(shown.length)} of {count(all.length)}</span>
        {ids.length > 0 && <button className="danger" onClick={() => setEnding(true)}>End {count(ids.length)}…</button>}
        {query.hasNextPage && <button onClick={() => void query.fetchNextPage()}>Load more</button>}
      </div>
      <div className="scroll" tabIndex={0} role="region" aria-label="Live sandboxes">
        <table>
          <thead>
            <tr>
              <th scope="col"><input type="checkbox" aria-label="Choose all" checked={ids.length === shown.length && shown.length > 0} onChange={(event) => setChosen(new Set(event.target.checked ? shown.map((it) => it.id) : []))} /></th>
              <th scope="col">State</th><th scope="col">Sandbox</th><th scope="col">Template</th><th scope="col" className="mid">Tier</th>
              <th scope="col" className="num mid">Memory</th><th scope="col" className="wide">Labels</th><th scope="col" className="num">Age</th><th scope="col" className="num">Ends in</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((it) => (
              <tr key={it.id}>
                <td><input type="checkbox" aria-label={`Choose ${it.id}`} checked={chosen.has(it.id)} onChange={() => toggle(it.id)} /></td>
                <td><StateOf name={it.state} /></td>
                <td className="mono"><Link to={`/sandboxes/${it.id}`}>{it.id}</Link></td>
                <td>{it.template}</td>
                <td className="mid">{it.tier}</td>
                <td className="num mid">{bytes(it.limits.memory_bytes)}</td>
                <td className="wide muted">{labels(it)}</td>
                <td className="num"><time title={moment(it.started_at)}>{distance(it.started_at, now)}</time></td>
                <td className="num"><time title={moment(it.deadline)}>{distance(it.deadline, now)}</time></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {ending && (
        <Dialog title={`End ${count(ids.length)} sandboxes?`} action="End them" danger onClose={() => setEnding(false)} onAction={async () => {
          await endAll(ids).finally(() => queries.invalidateQueries({ queryKey: ["sandboxes"] }));
          setChosen(new Set());
        }}>
          <p>Their files and processes are deleted.</p>
        </Dialog>
      )}
    </>
  );
}

function EndedList() {
  const now = useNow(5000);
  const query = useQuery({
    queryKey: ["ended"],
    queryFn: ({ signal }) => api("get", "/v1/ended", { query: { limit: PAGE }, signal }),
    refetchInterval: every(AGAIN),
  });
  return (
    <Loaded query={query} what="ended sandboxes">
      {({ items }) => items.length === 0 ? <Empty title="No sandbox has ended" /> : (
        <div className="scroll" tabIndex={0} role="region" aria-label="Ended sandboxes">
          <table>
            <thead><tr><th scope="col">Reason</th><th scope="col">Sandbox</th><th scope="col">Template</th><th scope="col" className="mid">Tier</th><th scope="col" className="num">Lived</th><th scope="col" className="num">Ended</th></tr></thead>
            <tbody>
              {items.map((it) => (
                <tr key={it.id}>
                  <td><span className="badge">{it.reason}</span></td>
                  <td className="mono"><Link to={`/sandboxes/${it.id}`}>{it.id}</Link></td>
                  <td>{it.template}</td>
                  <td className="mid">{it.tier}</td>
                  <td className="num">{millis(Date.parse(it.ended_at) - Date.parse(it.started_at))}</td>
                  <td className="num"><time title={moment(it.ended_at)}>{distance(it.ended_at, now)} ago</time></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Loaded>
  );
}

export default function Sandboxes() {
  const { query } = useLocation();
  const ended = query.get("show") === "ended";
  return (
    <>
      <Title title="Sandboxes">
        <div role="group" aria-label="Which sandboxes">
          <button aria-pressed={!ended} className={ended ? "" : "primary"} onClick={() => setQuery({ show: "" })}>Live</button>{" "}
          <button aria-pressed={ended} className={ended ? "primary" : ""} onClick={() => setQuery({ show: "ended", q: "" })}>Ended</button>
        </div>
      </Title>
      {ended ? <EndedList /> : <Live />}
    </>
  );
}
