// All runs, newest first: live at the top, further pages as the reader scrolls.

import { useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo } from "react";
import type { Run, RunLine } from "../api/types";
import { count, distance, dollars, millis, moment } from "../format";
import { Link, setQuery, useLocation } from "../router";
import { Empty, Loading, Problem, StateOf, Title, useNow } from "../ui/basics";
import { runQuery, useRunLines, useRunsOf } from "./lines";

const ROW = 32;
const ENOUGH = 20;
const SEARCHED = 1000;
const STATES = ["waiting", "running", "paused", "finished"];

interface Filter {
  text: string;
  agent: string;
  model: string;
}

function fits(line: RunLine, run: Run | undefined, filter: Filter) {
  const text = filter.text.toLowerCase();
  if (text && !line.title.toLowerCase().includes(text) && !line.id.startsWith(text)) return false;
  if (filter.agent && (run?.agent ?? "react") !== filter.agent) return false;
  return !filter.model || run?.model === filter.model;
}

function Row({ line, now }: { line: RunLine; now: number }) {
  const { data: run } = useQuery(runQuery(line));
  const used = run?.used;
  return (
    <>
      <td className="tight"><StateOf name={run?.end?.outcome ?? run?.state ?? line.state} /></td>
      <td><Link to={`/runs/${line.id}`} title={line.title}>{line.title || "(no question)"}</Link></td>
      <td className="mid">{run?.agent ?? (run ? "react" : "")}</td>
      <td className="wide">{run?.model}</td>
      <td className="num mid">{used && count(used.turns)}</td>
      <td className="num mid">{used && dollars(used.nano_dollars)}</td>
      <td className="num wide">{used && millis(used.model_ms + used.call_ms)}</td>
      <td className="num"><time dateTime={line.made_at} title={moment(line.made_at)}>{distance(line.made_at, now)}</time></td>
    </>
  );
}

function Rows({ lines, more, onEnd }: { lines: RunLine[]; more: boolean; onEnd: () => void }) {
  const now = useNow(5000);
  const virtual = useVirtualizer({
    count: lines.length,
    estimateSize: () => ROW,
    getScrollElement: () => document.getElementById("main"),
    getItemKey: (index) => lines[index]?.id ?? index,
    overscan: 12,
  });
  const items = virtual.getVirtualItems();
  const first = items[0]?.start ?? 0;
  const last = items.at(-1);
  const after = virtual.getTotalSize() - (last?.end ?? 0);
  const atEnd = (last?.index ?? 0) >= lines.length - 1;
  useEffect(() => {
    if (atEnd && more) onEnd();
  }, [atEnd, more, onEnd, lines.length]);
  return (
    <table className="fixed" aria-rowcount={lines.length}>
      <caption className="hidden">Runs, newest first</caption>
      <colgroup>
        <col style={{ width: "7.5rem" }} /><col /><col className="mid" style={{ width: "5.5rem" }} />
        <col className="wide" style={{ width: "10rem" }} /><col className="mid" style={{ width: "4.5rem" }} />
        <col className="mid" style={{ width: "5.5rem" }} /><col className="wide" style={{ width: "6.5rem" }} /><col style={{ width: "5.2rem" }} />
      </colgroup>
      <thead>
        <tr>
          <th scope="col">State</th><th scope="col">Question</th><th scope="col" className="mid">Agent</th>
          <th scope="col" className="wide">Model</th><th scope="col" className="num mid">Turns</th>
          <th scope="col" className="num mid">Cost</th>
          <th scope="col" className="num wide" title="Time in the model and in calls">Work</th>
          <th scope="col" className="num">Age</th>
        </tr>
      </thead>
      <tbody>
        {first > 0 && <tr className="spacer" aria-hidden="true"><td colSpan={8} style={{ height: first }} /></tr>}
        {items.map((item) => {
          const line = lines[item.index];
          return line && <tr key={line.id} ref={virtual.measureElement} data-index={item.index} aria-rowindex={item.index + 1}><Row line={line} now={now} /></tr>;
        })}
        {after > 0 && <tr className="spacer" aria-hidden="true"><td colSpan={8} style={{ height: after }} /></tr>}
      </tbody>
    </table>
  );
}

function Choice(props: { name: string; label: string; value: string; options: string[] }) {
  return (
    <select aria-label={props.label} value={props.value} onChange={(event) => setQuery({ [props.name]: event.target.value })}>
      <option value="">{props.label}: all</option>
      {props.options.map((option) => <option key={option}>{option}</option>)}
    </select>
  );
}

export default function Runs() {
  const { query } = useLocation();
  const state = query.get("state") ?? "";
  const filter = { text: query.get("q") ?? "", agent: query.get("agent") ?? "", model: query.get("model") ?? "" };
  const all = useRunLines(state);
  const isDeep = filter.agent !== "" || filter.model !== "";
  const runs = useRunsOf(all.lines, isDeep);
  const shown = useMemo(
    () => all.lines.filter((line) => fits(line, runs.get(line.id), filter)),
    [all.lines, runs, filter.text, filter.agent, filter.model],
  );
  const models = useMemo(() => [...new Set([...runs.values()].map((run) => run.model))].sort(), [runs]);
  const isFiltered = filter.text !== "" || isDeep;
  // The API filters by state alone. Further pages are searched until there is enough to show.
  const isSearching = isFiltered && all.more && shown.length < ENOUGH && all.lines.length < SEARCHED;
  useEffect(() => {
    if (isSearching) all.loadMore();
  }, [isSearching, all.lines.length]);
  return (
    <>
      <Title title="Runs">
        {all.fresh > 0 && (
          <button onClick={all.showFresh}>{count(all.fresh)} new {all.fresh === 1 ? "run" : "runs"}</button>
        )}
        <Link to="/runs/new" className="button primary">New run</Link>
      </Title>
      <div className="bar">
        <input data-filter type="search" placeholder="Filter questions  /" aria-label="Filter by question or id" value={filter.text} onChange={(event) => setQuery({ q: event.target.value })} />
        <Choice name="state" label="State" value={state} options={STATES} />
        <Choice name="agent" label="Agent" value={filter.agent} options={["react", "pipeline", "executor"]} />
        <Choice name="model" label="Model" value={filter.model} options={models} />
        {isFiltered && (
          <span className="muted" role="status">
            {count(shown.length)} of {count(all.lines.length)} loaded{all.more && <> · <button className="link" onClick={all.loadMore}>load more</button></>}
          </span>
        )}
      </div>
      {all.error ? <Problem error={all.error} what="Cannot load runs" retry={all.retry} /> : null}
      {all.loading && <Loading what="Loading runs" />}
      {!all.loading && all.lines.length === 0 && !all.error && (
        <Empty title={state ? `No run is ${state}` : "There are no runs yet"}>
          {state ? <button className="link" onClick={() => setQuery({ state: "" })}>Show all runs</button> : <Link to="/runs/new">Ask the first question</Link>}
        </Empty>
      )}
      {isSearching && shown.length === 0 && <Loading what="Searching older runs" />}
      {all.lines.length > 0 && shown.length === 0 && !isSearching && (
        <Empty title="No loaded run fits the filter">
          <button className="link" onClick={() => setQuery({ q: "", agent: "", model: "" })}>Clear the filter</button>
        </Empty>
      )}
      {shown.length > 0 && <Rows lines={shown} more={all.more && !isFiltered} onEnd={all.loadMore} />}
    </>
  );
}
