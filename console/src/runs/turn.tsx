// One turn: the model's words, its calls with code and output, figures, files and connections.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, send } from "../api/client";
import type { Turn as TurnDetail, TurnConnection } from "../api/types";
import { bytes, clock, cost, count, millis } from "../format";
import { Link } from "../router";
import { Problem, State, StateOf } from "../ui/basics";
import { Code, Output } from "../ui/code";
import { Download, Preview } from "../ui/file";
import { Arguments } from "./arguments";
import type { Input } from "./arguments";
import type { Artifact, CallView, Note, TurnView } from "./transcript";

export const runFile = (run: string, artifact: Artifact) => ({
  name: artifact.name,
  path: "/v1/runs/{run}/files/{file}" as const,
  options: { params: { run, file: artifact.name } },
  bytes: artifact.content.bytes,
  version: artifact.content.sha256,
  mediaType: artifact.media_type,
});

export function Figure({ run, artifact }: { run: string; artifact: Artifact }) {
  const file = runFile(run, artifact);
  return (
    <figure className="figure">
      <Preview file={file} />
      <figcaption><Download file={file} /></figcaption>
    </figure>
  );
}

export function Notes({ notes }: { notes: Note[] }) {
  return notes.map((note) => (
    <div key={note.seq} id={`e${note.seq}`} className={`notice ${note.tone ?? ""}`}>
      {note.kind === "stage_message" ? <Code code={note.text} language="json" name="Message between agents" /> : note.text}
      {note.run && <> <Link to={`/runs/${note.run}`}>{note.run}</Link></>}
      <span className="muted"> · {clock(note.at)}</span>
    </div>
  ));
}

/** The whole output, of which the model saw a part. */
function WholeOutput({ run, turn, call }: { run: string; turn: number; call: CallView }) {
  const [whole, setWhole] = useState<string>();
  const [error, setError] = useState<unknown>();
  const load = async () => {
    const path = "/v1/runs/{run}/turns/{turn}/calls/{call}/output";
    try {
      setWhole(await (await send("get", path, { params: { run, turn, call: call.id } })).text());
    } catch (cause) {
      setError(cause);
    }
  };
  const cut = call.end?.cut;
  if (!cut) return null;
  if (whole !== undefined) return <Output text={whole} name="Whole output" joined={false} />;
  return (
    <p className="muted">
      The model saw {count(cut.shown_chars)} of {count(cut.total_chars)} characters.{" "}
      <button className="link" onClick={() => void load()}>Show the whole output</button>
      {error !== undefined && <Problem error={error} />}
    </p>
  );
}

function End({ call }: { call: CallView }) {
  const { end } = call;
  if (!end) return <State tone="live">{call.started ? "running" : "waiting"}</State>;
  const isWell = !end.fault && (end.reason === "done" || (end.reason === "exit" && !end.exit_code));
  return (
    <>
      {!isWell && <State tone="bad">{end.fault?.category ?? end.reason}{end.exit_code ? ` ${end.exit_code}` : ""}</State>}
      <span className="muted" title="Wall-clock time, and CPU time">{millis(end.used.wall_micros / 1000)} · CPU {millis(end.used.cpu_micros / 1000)}</span>
      {end.used.peak_bytes ? <span className="muted mid" title="Peak memory">{bytes(end.used.peak_bytes)}</span> : null}
    </>
  );
}

function Call({ run, turn, call }: { run: string; turn: number; call: CallView }) {
  const isAnswer = call.name === "finish" || call.name === "ask_human";
  return (
    <div className="call" role="group" aria-label={`Call ${call.name}`}>
      <header>
        <b className="mono">{call.name}</b>
        <End call={call} />
        {call.network && (
          <span className={call.network.refused ? "" : "muted"}>
            {count(call.network.connections)} connections{call.network.refused ? <>, <State tone="bad">{count(call.network.refused)} refused</State></> : null}
          </span>
        )}
      </header>
      <Arguments input={call.input as Input} />
      {call.end && !isAnswer && <Output text={call.end.shown || "(no output)"} name="Output, as the model saw it" />}
      {call.end && !isAnswer && <WholeOutput run={run} turn={turn} call={call} />}
      {call.guards.map((guard) => <div key={guard} className="notice warn">{guard}</div>)}
      {call.artifacts.length > 0 && (
        <div className="figures">{call.artifacts.map((it) => <Figure key={it.name} run={run} artifact={it} />)}</div>
      )}
    </div>
  );
}

function Connections({ rows }: { rows: TurnConnection[] }) {
  if (rows.length === 0) return <p className="muted">No connection was made.</p>;
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label="Connections of the turn">
      <table>
        <thead><tr><th scope="col">Decision</th><th scope="col">Host</th><th scope="col">Request</th><th scope="col">Reason</th><th scope="col" className="num">Out</th><th scope="col" className="num">In</th></tr></thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.sandbox}:${row.sequence}`}>
              <td><StateOf name={row.decision} /></td>
              <td>{row.operation ?? row.host ?? "?"}{row.port && !row.operation ? `:${row.port}` : ""}</td>
              <td className="mono">{row.method} {row.path} {row.status}</td>
              <td>{row.reason}</td>
              <td className="num">{bytes(row.bytes.out)}</td>
              <td className="num">{bytes(row.bytes.in)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Changes({ detail }: { detail: TurnDetail }) {
  const changes = detail.calls.flatMap((call) => call.changes.map((change) => ({ ...change, sandbox: call.sandbox })));
  if (changes.length === 0) return <p className="muted">No file was changed.</p>;
  return (
    <ul>
      {changes.map((it, at) => (
        <li key={at}>
          {it.change} {it.sandbox && it.change !== "removed" ? <Link to={`/sandboxes/${it.sandbox}?file=${encodeURIComponent(it.path)}`} className="mono">{it.path}</Link> : <span className="mono">{it.path}</span>}
          {it.bytes != null && <span className="muted"> {bytes(it.bytes)}</span>}
        </li>
      ))}
    </ul>
  );
}

/** Rows of a turn that its events do not have: files, connections and the prompt. */
function Details({ run, turn }: { run: string; turn: number }) {
  const { data, error, refetch } = useQuery({
    queryKey: ["turn", run, turn],
    queryFn: ({ signal }) => api("get", "/v1/runs/{run}/turns/{turn}", { params: { run, turn }, signal }),
  });
  const [prompt, setPrompt] = useState(false);
  const asked = useQuery({
    queryKey: ["prompt", run, turn],
    queryFn: ({ signal }) => api("get", "/v1/runs/{run}/turns/{turn}/prompt", { params: { run, turn }, signal }),
    enabled: prompt,
    staleTime: Infinity,
  });
  if (error) return <Problem error={error} what="Cannot load the turn" retry={() => void refetch()} />;
  if (!data) return <p className="muted" role="status">Loading…</p>;
  return (
    <>
      <h3>Files</h3>
      <Changes detail={data} />
      <h3>Connections of the code</h3>
      <Connections rows={data.connections} />
      <h3>Requests to the model</h3>
      <Connections rows={data.model_connections} />
      <details onToggle={(event) => setPrompt(event.currentTarget.open)}>
        <summary>Prompt</summary>
        {asked.error && <Problem error={asked.error} what="Cannot load the prompt" />}
        {asked.data && <Code code={JSON.stringify({ system: asked.data.system, messages: asked.data.messages, tools: asked.data.tools }, null, 2)} language="json" name="Prompt" />}
      </details>
    </>
  );
}

export function Turn({ run, turn, isLast }: { run: string; turn: TurnView; isLast: boolean }) {
  const [open, setOpen] = useState(false);
  const { tokens } = turn;
  return (
    <>
      <Notes notes={turn.before} />
      <article className="turn" id={`turn-${turn.turn}`} tabIndex={-1} aria-label={`Turn ${turn.turn}`}>
        <header>
          <h3><Link to={`/runs/${run}#turn-${turn.turn}`}>Turn {turn.turn}</Link></h3>
          {turn.stage && <span className="badge">{turn.stage}</span>}
          <span className="muted grow">{turn.model}</span>
          {tokens && <span className="muted mid" title={`${count(tokens.input)} new, ${count(tokens.cache_read)} cached, ${count(tokens.cache_write)} written to the cache, ${count(tokens.output)} output`}>{count(tokens.input + tokens.cache_read + tokens.cache_write)} → {count(tokens.output)} tokens</span>}
          {turn.micros > 0 && <span className="muted mid" title="Time of the model">{millis(turn.micros / 1000)}</span>}
          <span title={turn.isEstimate ? "Estimated cost of the model: its provider did not report all of it" : "Cost of the model"}>{cost(turn.nanoDollars, turn.isEstimate)}</span>
          <time className="muted" dateTime={turn.at}>{clock(turn.at)}</time>
        </header>
        <div className="body">
          {turn.thinking && <details><summary className="muted">Thoughts</summary><p className="say muted">{turn.thinking}</p></details>}
          {turn.answered ? turn.text && <p className="say">{turn.text}</p> : <p className="say caret">{turn.words || (isLast ? "The model is asked " : "")}</p>}
          {turn.calls.map((call) => <Call key={call.id} run={run} turn={turn.turn} call={call} />)}
          {turn.answered && (
            <div className="details">
              <button className="link" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? "Hide" : "Show"} files, connections and prompt</button>
            </div>
          )}
          {open && <Details run={run} turn={turn.turn} />}
        </div>
      </article>
      <Notes notes={turn.after} />
    </>
  );
}
