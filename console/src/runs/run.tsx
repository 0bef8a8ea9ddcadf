// One run: its transcript as it arrives, beside its budget and facts.

import { useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { api } from "../api/client";
import { untilEnd } from "../api/poll";
import type { Run } from "../api/types";
import { bytes, count, dollars, millis, moment } from "../format";
import { Link, useLocation } from "../router";
import { isShortcut } from "../shortcuts";
import { Facts, Loading, Meter, Problem, StateOf, Title, useNow } from "../ui/basics";
import { Download, save } from "../ui/file";
import { Markdown } from "../ui/markdown";
import { WaitingCall } from "../approvals/waiting";
import { Actions, Question } from "./actions";
import { useTranscript } from "./follow";
import type { Followed } from "./follow";
import type { Transcript } from "./transcript";
import { Notes, Turn, runFile } from "./turn";

const NEAR_END = 120;

function Panel({ run, transcript }: { run: Run; transcript: Transcript }) {
  const { used, budget } = run;
  const sandbox = run.sandbox ?? transcript.sandbox;
  const { tokens, egress } = transcript;
  const now = useNow();
  const until = run.end && transcript.last ? Date.parse(transcript.last) : now;
  const wall = Math.max(0, until - Date.parse(run.made_at));
  return (
    <aside aria-label="Facts of the run">
      <div className="card">
        <h2>Budget</h2>
        <Meter name="Turns" used={used.turns} bound={budget.turns} />
        <Meter name="Cost" used={used.nano_dollars} bound={budget.nano_dollars} show={dollars} />
        <Meter name="Tokens" used={used.tokens} bound={budget.tokens} />
        <Meter name="Time" used={wall} bound={budget.wall_ms} show={millis} />
        <Meter name="CPU" used={used.cpu_ms} bound={budget.cpu_ms} show={millis} />
        <Meter name="Output" used={used.output_bytes} bound={budget.output_bytes} show={bytes} />
      </div>
      <div className="card">
        <h2>Tokens</h2>
        <Facts rows={[
          ["New input", count(tokens.input)],
          ["From the cache", count(tokens.cache_read)],
          ["To the cache", count(tokens.cache_write)],
          ["Output", count(tokens.output)],
        ]} />
      </div>
      <div className="card">
        <h2>Run</h2>
        <Facts rows={[
          ["Agent", run.agent ?? "react"],
          ["Model", run.model],
          ["Operation", run.operation],
          ["Sandbox", sandbox && <Link to={`/sandboxes/${sandbox}`} className="mono">{sandbox}</Link>],
          ["Template", run.template],
          ["Tier", run.tier],
          ["Memory", run.limits?.memory_bytes && bytes(run.limits.memory_bytes)],
          ["Network", typeof run.network?.reach === "object" ? run.network.reach.allow.map((rule) => rule.host).join(", ") : (run.network?.reach ?? "none")],
          ["Operations", run.operations?.join(", ")],
          ["Traffic", egress.out + egress.in > 0 && `${bytes(egress.out)} out, ${bytes(egress.in)} in`],
          ["Refused", egress.refused > 0 && `${count(egress.refused)} connections`],
          ["Attempt of", run.retry_of && <Link to={`/runs/${run.retry_of}`} className="mono">{run.retry_of}</Link>],
          ["Replay of", run.replay && <Link to={`/runs/${run.replay}`} className="mono">{run.replay}</Link>],
          ["Recording", run.recording?.name],
          ["Data", run.data.length > 0 && run.data.map((file) => <div key={file.name}>{file.name} <span className="muted">{bytes(file.bytes)}</span></div>)],
          ["Created", moment(run.made_at)],
          ["Usage", <Link to={`/usage?run=${run.id}`}>charges of this run</Link>],
          ["Events", <button className="link" onClick={() => save(`${run.id}.jsonl`, new Blob([transcript.raw.join("\n"), "\n"]))}>{count(transcript.raw.length)}, as JSON lines</button>],
        ]} />
      </div>
    </aside>
  );
}

/** The end of a run: its answer, or the reason that there is none. */
function End({ run, transcript }: { run: Run; transcript: Transcript }) {
  if (!run.end) return null;
  const { outcome, error, message, result } = run.end;
  const files = transcript.artifacts;
  return (
    <section className="card" aria-label="End" id="end" tabIndex={-1}>
      <h2><StateOf name={outcome} />{error && <span className="badge"> {error}</span>}</h2>
      {message && <p>{message}</p>}
      {result && <Markdown text={result} />}
      {files.length > 0 && (
        <>
          <h3>Files</h3>
          <ul>{files.map((file) => <li key={file.name + file.content.sha256}><Download file={runFile(run.id, file)} /></li>)}</ul>
        </>
      )}
    </section>
  );
}

/** The turns. Only those in view are drawn, so that a run of thousands opens at once. */
function Turns({ run, transcript, version, target }: { run: string; transcript: Transcript; version: number; target?: number }) {
  const list = useRef<HTMLDivElement>(null);
  const [margin, setMargin] = useState(0);
  const { turns } = transcript;
  useLayoutEffect(() => {
    const main = document.getElementById("main");
    if (list.current && main) setMargin(list.current.getBoundingClientRect().top - main.getBoundingClientRect().top + main.scrollTop);
  }, [version === 0]);
  const virtual = useVirtualizer({
    count: turns.length,
    estimateSize: () => 320,
    getScrollElement: () => document.getElementById("main"),
    getItemKey: (index) => turns[index]?.turn ?? index,
    scrollMargin: margin,
    scrollPaddingStart: 110,
    overscan: 4,
  });
  const index = turns.findIndex((it) => it.turn === target);
  useEffect(() => {
    if (index >= 0) virtual.scrollToIndex(index, { align: "start" });
  }, [index]);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (!/^[jk]$/.test(event.key) || !isShortcut(event)) return;
      const top = (document.getElementById("main")?.scrollTop ?? 0) + 112;
      const at = virtual.getVirtualItems().findLast((item) => item.start <= top)?.index ?? 0;
      virtual.scrollToIndex(Math.max(0, event.key === "j" ? at + 1 : at - 1), { align: "start" });
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [virtual]);
  return (
    <div ref={list} style={{ height: virtual.getTotalSize(), position: "relative" }}>
      {virtual.getVirtualItems().map((item) => {
        const turn = turns[item.index];
        return turn && (
          <div key={item.key} data-index={item.index} ref={virtual.measureElement} style={{ position: "absolute", inset: "0 0 auto", transform: `translateY(${item.start - margin}px)` }}>
            <Turn run={run} turn={turn} isLast={item.index === turns.length - 1} />
          </div>
        );
      })}
    </div>
  );
}

/** Follows the end of the page while the reader is there. */
function useTail(followed: Followed) {
  const atEnd = useRef(true);
  useEffect(() => {
    const main = document.getElementById("main");
    if (!main) return;
    const look = () => {
      atEnd.current = main.scrollHeight - main.scrollTop - main.clientHeight < NEAR_END;
    };
    main.addEventListener("scroll", look, { passive: true });
    return () => main.removeEventListener("scroll", look);
  }, []);
  const live = followed.state === "live" && !followed.transcript.isFinished;
  useEffect(() => {
    const main = document.getElementById("main");
    if (main && live && atEnd.current && main.scrollTop > 0) main.scrollTo(0, main.scrollHeight);
  }, [followed.version, live]);
}

export default function RunPage({ id }: { id: string }) {
  const { hash } = useLocation();
  const followed = useTranscript(id);
  const { transcript, version } = followed;
  useTail(followed);
  const query = useQuery({
    queryKey: ["run", id, "page"],
    queryFn: ({ signal }) => api("get", "/v1/runs/{run}", { params: { run: id }, signal }),
    refetchInterval: untilEnd(10_000),
  });
  const { refetch } = query;
  useEffect(() => {
    if (transcript.isFinished) void refetch();
  }, [transcript.isFinished, refetch]);
  const run = query.data;
  if (query.error && !run) return <Problem error={query.error} what="Cannot load the run" retry={() => void refetch()} />;
  if (!run) return <Loading what="Loading the run" />;
  const isLive = followed.state === "live" && !transcript.isFinished;
  return (
    <>
      <div className="run-head">
        <Title title={`Run ${id.slice(0, 8)}`}>
          <StateOf name={run.end?.outcome ?? run.state} />
          {isLive && <span className="muted" role="status">live</span>}
          <Actions run={run} onChange={() => void refetch()} />
        </Title>
        <div className="strip">
          <span><span className="muted">turns </span>{count(run.used.turns)}{run.budget.turns ? ` of ${count(run.budget.turns)}` : ""}</span>
          <span><span className="muted">cost </span>{dollars(run.used.nano_dollars)}</span>
          <span><span className="muted">tokens </span>{count(run.used.tokens)}</span>
          <span><span className="muted">CPU </span>{millis(run.used.cpu_ms)}</span>
          <span className="mid"><span className="muted">calls </span>{count(run.used.calls)}</span>
        </div>
      </div>
      {followed.error && <Problem error={followed.error} what="The live transcript waits" />}
      <div className="run">
        <div>
          <div className="card"><h2>Question</h2><div className="question">{run.question}</div></div>
          <Notes notes={transcript.start} />
          {transcript.turns.length === 0 && !run.end && <p className="loading" role="status">{run.state === "waiting" ? "Waiting for a worker…" : "Waiting for the first turn…"}</p>}
          <Turns run={id} transcript={transcript} version={version} target={Number(/^turn-(\d+)$/.exec(hash)?.[1]) || undefined} />
          <Question run={run} onChange={() => void refetch()} />
          {run.approval_asked && !run.end && <WaitingCall id={run.approval_asked} />}
          <End run={run} transcript={transcript} />
        </div>
        <Panel run={run} transcript={transcript} />
      </div>
    </>
  );
}
