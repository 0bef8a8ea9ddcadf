// Connections of a sandbox, those that were denied first.

import { useInfiniteQuery } from "@tanstack/react-query";
import { api } from "../api/client";
import { every } from "../api/poll";
import type { Connection } from "../api/types";
import { bytes, count } from "../format";
import { Link, setQuery, useLocation } from "../router";
import { Empty, Loading, Problem, StateOf } from "../ui/basics";

const DECISIONS = ["denied", "failed", "allowed", "played"] as const;
const PAGE = 200;
const AGAIN = 5000;

const rank = (row: Connection) => DECISIONS.indexOf(row.decision);
const target = (row: Connection) => row.operation ?? `${row.host ?? row.address ?? "?"}${row.port ? `:${row.port}` : ""}`;

/** Denied connections first, then by decision, each from the newest on. Rows of both lists are shown once. */
export function inOrder(denied: Connection[], rows: Connection[]) {
  const all = new Map([...denied, ...rows].map((row) => [row.sequence, row]));
  return [...all.values()].sort((a, b) => rank(a) - rank(b) || b.sequence - a.sequence);
}

function useConnections(id: string, decision: Connection["decision"] | undefined, call: number | undefined, live: boolean, enabled = true) {
  return useInfiniteQuery({
    queryKey: ["connections", id, decision, call],
    queryFn: ({ signal, pageParam }) =>
      api("get", "/v1/sandboxes/{sandbox}/connections", { params: { sandbox: id }, query: { decision, call, limit: PAGE, after: pageParam }, signal }),
    initialPageParam: undefined as number | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    // All loaded pages are read again, so more of them are read less often.
    refetchInterval: (it) => live && every(AGAIN * (it.state.data?.pages.length || 1))(it),
    enabled,
  });
}

export function Connections({ id, live }: { id: string; live: boolean }) {
  const { query } = useLocation();
  const decision = DECISIONS.find((it) => it === query.get("decision"));
  const call = Number(query.get("call")) || undefined;
  const text = query.get("q") ?? "";
  const rows = useConnections(id, decision, call, live);
  // A denied one may be on a page of all connections that is not loaded.
  const denied = useConnections(id, "denied", call, live, decision === undefined);
  if (!rows.data) {
    return rows.error ? <Problem error={rows.error} what="Cannot load connections" retry={() => void rows.refetch()} /> : <Loading what="Loading connections" />;
  }
  const first = decision === undefined ? denied : undefined;
  const all = inOrder(first?.data?.pages.flatMap((page) => page.items) ?? [], rows.data.pages.flatMap((page) => page.items));
  const shown = all.filter((row) => `${target(row)} ${row.path ?? ""} ${row.reason}`.includes(text));
  const loadMore = () => {
    if (rows.hasNextPage) void rows.fetchNextPage();
    if (first?.hasNextPage) void first.fetchNextPage();
  };
  return (
    <>
      <div className="bar">
        <input data-filter type="search" placeholder="Filter  /" aria-label="Filter by host, path or reason" value={text} onChange={(event) => setQuery({ q: event.target.value })} />
        <select aria-label="Decision" value={decision ?? ""} onChange={(event) => setQuery({ decision: event.target.value })}>
          <option value="">Decision: all</option>
          {DECISIONS.map((it) => <option key={it}>{it}</option>)}
        </select>
        {call && <button onClick={() => setQuery({ call: "" })}>Call {call} ✕</button>}
        <span className="muted" role="status">{count(shown.length)} rows</span>
        {(rows.hasNextPage || first?.hasNextPage) && <button onClick={loadMore}>Load more</button>}
      </div>
      {first?.error ? <Problem error={first.error} what="Cannot load denied connections" retry={() => void first.refetch()} /> : null}
      {all.length === 0 ? <Empty title="No connection"><p>Code of this sandbox has not tried to reach anything.</p></Empty> : (
        <div className="scroll" tabIndex={0} role="region" aria-label="Connections">
          <table>
            <thead>
              <tr>
                <th scope="col">Decision</th><th scope="col">Target</th><th scope="col">Reason</th><th scope="col" className="mid">Request</th><th scope="col" className="mid">Call</th>
                <th scope="col" className="mid">Run</th><th scope="col" className="num">Out</th><th scope="col" className="num">In</th><th scope="col" className="num">At</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((row) => (
                <tr key={row.sequence} id={`c${row.sequence}`}>
                  <td><StateOf name={row.decision} /></td>
                  <td className="mono">{target(row)}</td>
                  <td>{row.reason}</td>
                  <td className="mono mid">{row.method} {row.path} {row.status}</td>
                  <td className="mid">{row.call && <button className="link" onClick={() => setQuery({ call: String(row.call?.number) })}>{row.call.name ?? "call"} {row.call.number}</button>}</td>
                  <td className="mid">{row.run && <Link to={`/runs/${row.run}${row.turn ? `#turn-${row.turn}` : ""}`}>{row.run.slice(0, 8)}{row.turn ? `, turn ${row.turn}` : ""}</Link>}</td>
                  <td className="num">{bytes(row.bytes.out)}</td>
                  <td className="num">{bytes(row.bytes.in)}</td>
                  <td className="num">{new Date(row.began / 1000).toLocaleTimeString("en-GB")}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}
