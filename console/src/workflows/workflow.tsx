// One workflow: its graph with the state of each step, its attempts and its results.

import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, blob } from "../api/client";
import type { Workflow, WorkflowStep } from "../api/types";
import { count, dollars, moment } from "../format";
import { Link } from "../router";
import { Loaded, Problem, StateOf, Title } from "../ui/basics";
import { Output } from "../ui/code";
import { Dialog } from "../ui/dialog";
import { Download } from "../ui/file";

/** The server draws the graph. It is drawn again when a step has another state. */
function Graph({ workflow }: { workflow: Workflow }) {
  const states = workflow.steps.map((step) => step.state).join();
  const { data, error } = useQuery({
    queryKey: ["graph", workflow.id, states],
    queryFn: ({ signal }) => blob("/v1/workflows/{workflow}/graph", { params: { workflow: workflow.id }, signal }),
    staleTime: Infinity,
    placeholderData: (before) => before,
  });
  const [address, setAddress] = useState<string>();
  useEffect(() => {
    if (!data) return;
    const made = URL.createObjectURL(new Blob([data], { type: "image/svg+xml" }));
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [data]);
  if (error) return <Problem error={error} what="Cannot draw the graph" />;
  const words = workflow.steps.map((step) => `${step.name}: ${step.state}`).join(", ");
  return address ? <img className="graph" src={address} alt={`Graph of the steps. ${words}`} /> : null;
}

function Attempts({ step }: { step: WorkflowStep }) {
  return step.attempts.map((it) => (
    <div key={`${it.item}-${it.attempt}`} className="bar" style={{ margin: 0, lineHeight: "24px" }}>
      <StateOf name={it.outcome ?? "running"} />
      {(step.attempts.length > 1 || it.attempt > 0) && <span className="muted">item {it.item + 1}{it.attempt > 0 && `, attempt ${it.attempt + 1}`}</span>}
      {it.id && <Link className="mono" to={step.kind === "run" ? `/runs/${it.id}` : `/sandboxes/${it.id}`}>{it.id}</Link>}
      {it.error && <span>{it.error}</span>}
    </div>
  ));
}

function Results({ workflow }: { workflow: Workflow }) {
  const outputs = Object.entries(workflow.outputs);
  if (outputs.length === 0) return null;
  return (
    <div className="card">
      <h2>Results</h2>
      {outputs.map(([name, output]) => output.file ? (
        <p key={name}><Download file={{ name, path: "/v1/workflows/{workflow}/files/{file}", options: { params: { workflow: workflow.id, file: name } }, bytes: output.file.bytes, version: output.file.sha256 }} /></p>
      ) : (
        <div key={name}><h3>{name}</h3><Output joined={false} name={name} text={typeof output.value === "string" ? output.value : JSON.stringify(output.value, null, 2)} /></div>
      ))}
    </div>
  );
}

export default function WorkflowPage({ id }: { id: string }) {
  const [ending, setEnding] = useState(false);
  const query = useQuery({
    queryKey: ["workflow", id],
    queryFn: ({ signal }) => api("get", "/v1/workflows/{workflow}", { params: { workflow: id }, signal }),
    refetchInterval: (it) => (it.state.data && it.state.data.state !== "running" ? false : 2000),
  });
  return (
    <Loaded query={query} what="the workflow">
      {(workflow) => (
        <>
          <Title title={`Workflow ${workflow.name}`}>
            <StateOf name={workflow.state} />
            <span className="muted">{dollars(workflow.nano_dollars)} · {count(workflow.tokens)} tokens · {moment(workflow.made_at)}</span>
            {workflow.state === "running" && <button className="danger" disabled={workflow.is_cancelled} onClick={() => setEnding(true)}>Cancel…</button>}
          </Title>
          {workflow.error && <div className="notice bad">{workflow.error}</div>}
          <div className="card scroll" tabIndex={0} role="region" aria-label="Graph"><Graph workflow={workflow} /></div>
          <table>
            <thead><tr><th scope="col">State</th><th scope="col">Step</th><th scope="col" className="mid">Kind</th><th scope="col">Attempts</th></tr></thead>
            <tbody>
              {workflow.steps.map((step) => (
                <tr key={step.name}>
                  <td><StateOf name={step.state} /></td>
                  <td>{step.name}{step.reason && <div className="muted">{step.reason}</div>}</td>
                  <td className="mid">{step.kind}</td>
                  <td><Attempts step={step} /></td>
                </tr>
              ))}
            </tbody>
          </table>
          <div style={{ height: "0.75rem" }} />
          <Results workflow={workflow} />
          {ending && (
            <Dialog title="Cancel this workflow?" action="Cancel the workflow" danger onClose={() => setEnding(false)} onAction={async () => {
              await api("post", "/v1/workflows/{workflow}/cancel", { params: { workflow: id } });
              await query.refetch();
            }}>
              <p>Steps that are under way end.</p>
            </Dialog>
          )}
        </>
      )}
    </Loaded>
  );
}
