// Small parts that every page uses: states, errors, empty lists, facts and bars.

import { useEffect, useState } from "react";
import type { ReactNode } from "react";
import { ApiError } from "../api/client";
import { count } from "../format";

export type Tone = "good" | "warn" | "bad" | "live" | "idle";

export function State({ tone, children }: { tone: Tone; children: ReactNode }) {
  return <span className={`state ${tone}`}>{children}</span>;
}

const TONES: Record<string, Tone> = {
  answered: "good", done: "good", allowed: "good", delivered: "good",
  running: "live", played: "live",
  waiting: "idle", paused: "warn", exhausted: "warn", cancelled: "idle", skipped: "idle",
  failed: "bad", denied: "bad", lost: "bad", removed: "bad",
};

/** A state or an outcome in its colour. Unknown words have none. */
export function StateOf({ name }: { name: string }) {
  return <State tone={TONES[name] ?? "idle"}>{name}</State>;
}

/** A failed request: its cause, its code, and the next step. */
export function Problem({ error, retry, what }: { error: unknown; retry?: () => void; what?: string }) {
  const known = error instanceof ApiError ? error : undefined;
  return (
    <div className="notice bad" role="alert">
      <b>{what ?? "The request failed"}:</b> {error instanceof Error ? error.message : String(error)}
      {known?.hint && <p>{known.hint}</p>}
      <p className="muted">
        {known && known.code !== "unreachable" && <code>{known.code}</code>}
        {known?.requestId && <> · request <code>{known.requestId}</code></>}
        {retry && <> <button onClick={retry}>Try again</button></>}
      </p>
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export const Loading = ({ what = "Loading" }: { what?: string }) => (
  <div className="loading" role="status">{what}…</div>
);

/** The data of a query, or the reason that there is none. */
export function Loaded<T>(props: {
  query: { data: T | undefined; error: unknown; refetch: () => unknown };
  what: string;
  children: (data: T) => ReactNode;
}) {
  const { data, error, refetch } = props.query;
  if (data === undefined && error) {
    return <Problem error={error} what={`Cannot load ${props.what}`} retry={() => void refetch()} />;
  }
  if (data === undefined) return <Loading what={`Loading ${props.what}`} />;
  return (
    <>
      {error ? <Problem error={error} what={`Cannot refresh ${props.what}`} retry={() => void refetch()} /> : null}
      {props.children(data)}
    </>
  );
}

export function Facts({ rows }: { rows: [string, ReactNode][] }) {
  return (
    <dl className="facts">
      {rows.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false && !(Array.isArray(value) && value.length === 0)).map(([name, value]) => (
        <div key={name} style={{ display: "contents" }}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The used part of a bound. Without a bound there is no bar. */
export function Meter(props: { name: string; used: number; bound?: number | null; show?: (value: number) => string }) {
  const { name, used, bound, show = count } = props;
  return (
    <div className="meter">
      <div className="words">
        <span className="muted">{name}</span>
        <span>{show(used)}{bound ? <span className="muted"> of {show(bound)}</span> : null}</span>
      </div>
      {bound ? (
        <meter aria-label={`${name}: ${show(used)} of ${show(bound)}`} min={0} max={bound} low={bound * 0.75} high={bound * 0.95} optimum={0} value={Math.min(used, bound)} />
      ) : null}
    </div>
  );
}

/** The time, anew every `every` milliseconds. */
export function useNow(every = 1000) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

export function Title({ title, children }: { title: string; children?: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Belljar`;
  }, [title]);
  return (
    <div className="head">
      <h1 className="grow">{title}</h1>
      {children}
    </div>
  );
}
