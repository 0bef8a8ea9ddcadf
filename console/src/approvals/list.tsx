// Requests of code that wait for a person.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../api/client";
import type { Approval } from "../api/types";
import { distance, moment } from "../format";
import { Link } from "../router";
import { Empty, Facts, Loaded, Problem, Title, useNow } from "../ui/basics";
import { Dialog, Field, text } from "../ui/dialog";

const WORDS = { push: "Push", merge_request: "Merge request" };

function Waiting({ approval, now }: { approval: Approval; now: number }) {
  const queries = useQueryClient();
  const [error, setError] = useState<unknown>();
  const [denying, setDenying] = useState(false);
  const decide = async (decision: "approve" | "deny", message?: string) => {
    await api("post", "/v1/approvals/{approval}", { params: { approval: approval.id }, body: { decision, message } });
    await queries.invalidateQueries({ queryKey: ["approvals"] });
  };
  const title = `${WORDS[approval.action]} to ${approval.repository}`;
  return (
    <article className="card" aria-label={title}>
      <div className="bar">
        <h2 className="grow" style={{ margin: 0 }}>{title}</h2>
        <button className="primary" onClick={() => void decide("approve").catch(setError)}>Allow</button>
        <button className="danger" onClick={() => setDenying(true)}>Deny…</button>
      </div>
      <ul className="mono">{approval.changes.map((change, at) => <li key={at}>{change}</li>)}</ul>
      <Facts rows={[
        ["Run", approval.run && <Link className="mono" to={`/runs/${approval.run}${approval.turn ? `#turn-${approval.turn}` : ""}`}>{approval.run}{approval.turn ? `, turn ${approval.turn}` : ""}</Link>],
        ["Sandbox", <Link className="mono" to={`/sandboxes/${approval.sandbox}`}>{approval.sandbox}</Link>],
        ["Operation", approval.operation],
        ["Asked", <time title={moment(approval.asked_at)}>{distance(approval.asked_at, now)} ago</time>],
        ["Refused in", <time title={moment(approval.expires_at)}>{distance(approval.expires_at, now)}</time>],
      ]} />
      {error !== undefined && <Problem error={error} what="Cannot decide" />}
      {denying && (
        <Dialog title={`Deny: ${title}?`} action="Deny" danger onClose={() => setDenying(false)} onAction={(form) => decide("deny", text(form, "message"))}>
          <Field label="A sentence for the code" hint="optional"><textarea name="message" rows={2} /></Field>
        </Dialog>
      )}
    </article>
  );
}

export default function Approvals() {
  const now = useNow();
  const query = useQuery({
    queryKey: ["approvals"],
    queryFn: ({ signal }) => api("get", "/v1/approvals", { signal }),
    refetchInterval: 5000,
  });
  return (
    <>
      <Title title="Approvals" />
      <Loaded query={query} what="approvals">
        {({ items }) => items.length === 0 ? (
          <Empty title="Nothing waits for you">
            <p>Operations with approvals hold pushes and merge requests here until a person decides.</p>
          </Empty>
        ) : (
          <div style={{ maxWidth: "52rem" }}>{items.map((it) => <Waiting key={it.id} approval={it} now={now} />)}</div>
        )}
      </Loaded>
    </>
  );
}
