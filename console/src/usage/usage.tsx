// The ledger: what was used, by day, model, run, operation or account.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { api } from "../api/client";
import { every } from "../api/poll";
import type { UsageAmounts, UsageGroup } from "../api/types";
import { bytes, count, dollars, millis } from "../format";
import { Link, setQuery, useLocation } from "../router";
import { Empty, Loaded, Loading, Title, useNow } from "../ui/basics";
import { Boundary } from "../ui/boundary";
import { RunBudgetBar } from "./bar";

const Chart = lazy(() => import("./chart"));

const PERIODS: Record<string, number> = { day: 1, week: 7, month: 30, quarter: 90 };
const GROUPS = ["day", "model", "run", "operation", "account"] as const;
type Group = (typeof GROUPS)[number];
const MINUTE = 60_000;
const DAY = 86_400_000;
const PAGE = 100;
const MAX_PAGES = 10;

const tokensOf = ({ tokens }: UsageAmounts) => tokens.input + tokens.cache_read + tokens.cache_write + tokens.output;

function Name({ group, by }: { group: UsageGroup; by: Group }) {
  const name = group[by];
  if (!name) return <span className="muted">(none)</span>;
  return by === "run" ? <Link to={`/runs/${name}`} className="mono">{name}</Link> : <>{name}</>;
}

function Row({ group, by, most }: { group: UsageGroup; by: Group; most: number }) {
  const { used } = group;
  return (
    <tr>
      <td><Name group={group} by={by} /></td>
      <td className="num">{dollars(used.nano_dollars)}</td>
      <td className="mid" style={{ width: "9rem" }}>
        {by === "run" && group.run
          ? <RunBudgetBar run={group.run} />
          : <meter aria-label="Share of the largest cost" min={0} max={Math.max(most, 1)} value={used.nano_dollars} />}
      </td>
      <td className="num" title={`${count(used.tokens.input)} new, ${count(used.tokens.cache_read)} cached, ${count(used.tokens.cache_write)} to the cache, ${count(used.tokens.output)} output`}>{count(tokensOf(used))}</td>
      <td className="num mid">{millis(used.sandbox_ms)}</td>
      <td className="num mid">{bytes(used.egress_bytes)}</td>
      <td className="num wide">{count(used.charges)}</td>
    </tr>
  );
}

function Table({ items, total, by }: { items: UsageGroup[]; total: UsageAmounts; by: Group }) {
  const most = Math.max(...items.map((it) => it.used.nano_dollars));
  const sorted = by === "day" ? items.toReversed() : items.toSorted((a, b) => b.used.nano_dollars - a.used.nano_dollars);
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Usage">
      <table>
        <thead>
          <tr>
            <th scope="col">{by[0]?.toUpperCase()}{by.slice(1)}</th><th scope="col" className="num">Cost</th>
            <th scope="col" className="mid">{by === "run" ? "Of its budget" : "Share"}</th><th scope="col" className="num">Tokens</th>
            <th scope="col" className="num mid">Sandbox time</th><th scope="col" className="num mid">Egress</th><th scope="col" className="num wide">Charges</th>
          </tr>
        </thead>
        <tbody>
          {sorted.map((group, at) => <Row key={at} group={group} by={by} most={most} />)}
          <tr>
            <td><b>Total</b></td><td className="num"><b>{dollars(total.nano_dollars)}</b></td><td className="mid" />
            <td className="num">{count(tokensOf(total))}</td><td className="num mid">{millis(total.sandbox_ms)}</td>
            <td className="num mid">{bytes(total.egress_bytes)}</td><td className="num wide">{count(total.charges)}</td>
          </tr>
        </tbody>
      </table>
    </div>
  );
}

/** All groups of a period. They come in the order of their names, so the dearest may be on any page. */
async function load(query: { by: string; from: string; run: string }, signal: AbortSignal) {
  const first = await api("get", "/v1/usage", { query: { ...query, limit: PAGE }, signal });
  let { next } = first;
  const items = [...first.items];
  for (let pages = 1; next && pages < MAX_PAGES; pages += 1) {
    const page = await api("get", "/v1/usage", { query: { ...query, limit: PAGE, after: next }, signal });
    items.push(...page.items);
    next = page.next;
  }
  return { items, total: first.total, next };
}

/** The begin of a period that ends now, in whole minutes. */
export const startOf = (period: string, now: number) =>
  new Date(Math.floor(now / MINUTE) * MINUTE - (PERIODS[period] ?? 30) * DAY).toISOString();

export default function Usage() {
  const { query: address } = useLocation();
  const by = GROUPS.find((it) => it === address.get("by")) ?? "day";
  const period = PERIODS[address.get("period") ?? ""] ? (address.get("period") ?? "month") : "month";
  const run = address.get("run") ?? "";
  const from = startOf(period, useNow(MINUTE));
  const ask = (group: string) => ({
    queryKey: ["usage", group, from, run],
    queryFn: ({ signal }: { signal: AbortSignal }) => load({ by: group, from, run }, signal),
    placeholderData: keepPreviousData,
    refetchInterval: every(10_000),
  });
  const query = useQuery(ask(by));
  const days = useQuery(ask("day,account"));
  return (
    <>
      <Title title="Usage" />
      <div className="bar">
        <select aria-label="Period" value={period} onChange={(event) => setQuery({ period: event.target.value })}>
          {Object.entries(PERIODS).map(([name, length]) => <option key={name} value={name}>Last {length === 1 ? "24 hours" : `${length} days`}</option>)}
        </select>
        <select aria-label="Group by" value={by} onChange={(event) => setQuery({ by: event.target.value })}>
          {GROUPS.map((it) => <option key={it} value={it}>By {it}</option>)}
        </select>
        {run && <button onClick={() => setQuery({ run: "" })}>Run {run.slice(0, 8)} ✕</button>}
      </div>
      <Loaded query={query} what="usage">
        {({ items, total, next }) => items.length === 0 ? (
          <Empty title="Nothing was charged in this period"><p>Model requests, sandbox time and egress are charged to the ledger.</p></Empty>
        ) : (
          <>
            <div className="card strip">
              <div><span className="muted">Cost</span><b>{dollars(total.nano_dollars)}</b></div>
              <div><span className="muted">Tokens</span><b>{count(tokensOf(total))}</b></div>
              <div><span className="muted">Sandbox time</span><b>{millis(total.sandbox_ms)}</b></div>
              <div><span className="muted">Egress</span><b>{bytes(total.egress_bytes)}</b></div>
            </div>
            {days.data && days.data.items.length > 0 && <div className="card"><h2>Cost by day</h2><Boundary what="The chart cannot be drawn"><Suspense fallback={<Loading />}><Chart groups={days.data.items} from={from} /></Suspense></Boundary></div>}
            <Table items={items} total={total} by={by} />
            {next && <p className="muted">The first {count(items.length)} groups. Choose a shorter period to see the others.</p>}
          </>
        )}
      </Loaded>
    </>
  );
}
