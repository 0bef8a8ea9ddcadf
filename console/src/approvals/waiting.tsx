// One request that waits for a person.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../api/client";
import type { Approval, ApprovalToolCall } from "../api/types";
import { bytes, distance, moment, until } from "../format";
import { Link } from "../router";
import { Arguments } from "../runs/arguments";
import type { Input } from "../runs/arguments";
import { Facts, StateOf, useNow } from "../ui/basics";
import { Code } from "../ui/code";
import { Dialog, Field, text } from "../ui/dialog";

export const approvals = {
  queryKey: ["approvals"],
  queryFn: ({ signal }: { signal: AbortSignal }) => api("get", "/v1/approvals", { signal }),
  refetchInterval: 5000,
};

/** The input as an object; none: it is cut off, or none. */
function parsed(input: string): Input | undefined {
  try {
    const value: unknown = JSON.parse(input);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Input) : undefined;
  } catch {
    return undefined;
  }
}

function ToolInput({ call }: { call: ApprovalToolCall }) {
  const input = parsed(call.input);
  const shown = new TextEncoder().encode(call.input).length;
  return (
    <>
      {input ? <Arguments input={input} whole /> : <Code joined code={call.input} language="json" name="Arguments" />}
      {shown < call.bytes && <p className="notice warn">Only the first {bytes(shown)} of {bytes(call.bytes)} are shown.</p>}
    </>
  );
}

function titleOf(approval: Approval) {
  if (approval.tool) return `Call of ${approval.tool.tool}`;
  return `${approval.action === "push" ? "Push" : "Merge request"} to ${approval.repository}`;
}

/** Adds new requests at the end and keeps decided ones, so that no card moves to the place of another. */
export function keepInPlace(before: Approval[], items: Approval[]): Approval[] {
  const current = new Map(items.map((it) => [it.id, it]));
  const kept = before.map((it) => current.get(it.id) ?? it);
  const known = new Set(before.map((it) => it.id));
  return [...kept, ...items.filter((it) => !known.has(it.id))];
}

const DECIDED = { approve: "allowed", deny: "denied" };

/** A request with its buttons. `over`: it was decided or has expired, and has no buttons. */
export function Waiting({ approval, now, over = false }: { approval: Approval; now: number; over?: boolean }) {
  const queries = useQueryClient();
  const [asking, ask] = useState<"approve" | "deny">();
  const [decided, setDecided] = useState<"approve" | "deny">();
  const decide = async (decision: "approve" | "deny", message?: string) => {
    await api("post", "/v1/approvals/{approval}", { params: { approval: approval.id }, body: { decision, message } });
    setDecided(decision);
    await queries.invalidateQueries({ queryKey: approvals.queryKey });
  };
  const title = titleOf(approval);
  return (
    <article className="card" aria-label={title}>
      <div className="bar" style={{ minHeight: "2.2rem" }}>
        <h2 className="grow" style={{ margin: 0 }}>{title}</h2>
        {decided || over ? <StateOf name={decided ? DECIDED[decided] : "over"} /> : (
          <>
            <button className="primary" onClick={() => ask("approve")}>Allow…</button>
            <button className="danger" onClick={() => ask("deny")}>Deny…</button>
          </>
        )}
      </div>
      {approval.tool && <ToolInput call={approval.tool} />}
      {approval.changes.length > 0 && <ul className="mono">{approval.changes.map((change, at) => <li key={at}>{change}</li>)}</ul>}
      <Facts rows={[
        ["Run", approval.run && <Link className="mono" to={`/runs/${approval.run}${approval.turn ? `#turn-${approval.turn}` : ""}`}>{approval.run}{approval.turn ? `, turn ${approval.turn}` : ""}</Link>],
        ["Sandbox", approval.sandbox && <Link className="mono" to={`/sandboxes/${approval.sandbox}`}>{approval.sandbox}</Link>],
        ["Operation", approval.operation],
        ["Asked", <time title={moment(approval.asked_at)}>{distance(approval.asked_at, now)} ago</time>],
        ["Expires", decided || over ? "—" : <time title={moment(approval.expires_at)}>{until(approval.expires_at, now)}</time>],
      ]} />
      {asking === "approve" && (
        <Dialog title={`Allow: ${title}?`} action="Allow" onClose={() => ask(undefined)} onAction={() => decide("approve")}>
          {approval.run && <p>The run <span className="mono">{approval.run}</span> goes on with it.</p>}
        </Dialog>
      )}
      {asking === "deny" && (
        <Dialog title={`Deny: ${title}?`} action="Deny" danger onClose={() => ask(undefined)} onAction={(form) => decide("deny", text(form, "message"))}>
          <Field label="A sentence for the code" hint="optional"><textarea name="message" rows={2} /></Field>
        </Dialog>
      )}
    </article>
  );
}

/** The tool call for which a run waits. */
export function WaitingCall({ id }: { id: string }) {
  const now = useNow();
  const query = useQuery(approvals);
  const approval = query.data?.items.find((it) => it.id === id);
  return approval ? <Waiting key={approval.id} approval={approval} now={now} /> : null;
}
