// A new run: a question, its files, and its bounds.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { FormEvent } from "react";
import { OnceKey, api } from "../api/client";
import type { CreateRun } from "../api/types";
import { bytes, short } from "../format";
import { Link, navigate } from "../router";
import { Problem, Title } from "../ui/basics";
import { Field, numeral, text } from "../ui/dialog";
import { budgetOf, BudgetFields } from "./budget";

interface Chosen {
  name: string;
  sha256: string;
  bytes: number;
}

type Network = NonNullable<CreateRun["network"]>;

/** The network policy in the form. Without hosts, there is none. */
function networkOf(form: FormData): Network | undefined {
  const hosts = (text(form, "hosts") ?? "").split(/[\s,]+/).filter(Boolean);
  const packages = form.has("packages") || undefined;
  if (hosts.length === 0 && !packages) return undefined;
  return { ...(hosts.length > 0 && { reach: { allow: hosts.map((host) => ({ host })) } }), packages };
}

function requestOf(form: FormData, data: Chosen[], operations: string[]): CreateRun {
  const memory = numeral(form, "memory");
  const cpus = numeral(form, "cpus");
  return {
    question: text(form, "question") ?? "",
    data: data.map(({ name, sha256 }) => ({ name, sha256 })),
    agent: text(form, "agent"),
    model: text(form, "model"),
    operation: text(form, "operation"),
    template: text(form, "template"),
    tier: text(form, "tier") as CreateRun["tier"],
    limits: {
      memory_bytes: memory && memory * 1024 ** 2,
      cpu_millis: cpus && Math.round(cpus * 1000),
    },
    budget: budgetOf(form),
    instructions: text(form, "instructions"),
    network: networkOf(form),
    operations: operations.filter((it) => form.has(`uses:${it}`)),
    questions: form.has("questions"),
    record: text(form, "record"),
  };
}

/** Files of the run: new ones are uploaded at once, and earlier ones can be taken again. */
function Files({ chosen, choose }: { chosen: Chosen[]; choose: (files: Chosen[]) => void }) {
  const queries = useQueryClient();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(0);
  const { data } = useQuery({ queryKey: ["data"], queryFn: ({ signal }) => api("get", "/v1/data", { signal }) });
  const upload = async (files: FileList) => {
    setBusy(files.length);
    try {
      const kept: Chosen[] = [];
      for (const file of files) {
        const { sha256, bytes } = await api("post", "/v1/data", { body: file as never });
        kept.push({ name: file.name, sha256, bytes });
      }
      choose([...chosen, ...kept]);
      setError(undefined);
      void queries.invalidateQueries({ queryKey: ["data"] });
    } catch (cause) {
      setError(cause);
    }
    setBusy(0);
  };
  const rename = (at: number, name: string) => choose(chosen.map((it, index) => (index === at ? { ...it, name } : it)));
  return (
    <fieldset className="card">
      <legend className="hidden">Data</legend>
      <h2>Data</h2>
      {chosen.map((file, at) => (
        <div className="bar" key={`${file.sha256}-${at}`}>
          <input aria-label={`Name of file ${at + 1}`} value={file.name} onChange={(event) => rename(at, event.target.value)} />
          <span className="muted">{bytes(file.bytes)} · {short(file.sha256)}</span>
          <button type="button" className="link" onClick={() => choose(chosen.filter((_, index) => index !== at))} aria-label={`Remove ${file.name}`}>Remove</button>
        </div>
      ))}
      <div className="pair">
        <Field label="Upload" hint="CSV, JSON, JSON Lines, Parquet, Excel"><input type="file" multiple onChange={(event) => event.target.files && void upload(event.target.files)} /></Field>
        {data && data.items.length > 0 && (
          <Field label="Uploaded before">
            <select value="" onChange={(event) => {
              const found = data.items.find((it) => it.sha256 === event.target.value);
              if (found) choose([...chosen, { ...found, name: `data-${short(found.sha256)}.csv` }]);
            }}>
              <option value="">Choose…</option>
              {data.items.map((it) => <option key={it.sha256} value={it.sha256}>{short(it.sha256)} · {bytes(it.bytes)}</option>)}
            </select>
          </Field>
        )}
      </div>
      {busy > 0 && <p role="status" className="muted">Uploading…</p>}
      {error !== undefined && <Problem error={error} what="Cannot upload" />}
    </fieldset>
  );
}

export default function NewRun() {
  const [once] = useState(() => new OnceKey());
  const [data, setData] = useState<Chosen[]>([]);
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const templates = useQuery({ queryKey: ["templates"], queryFn: ({ signal }) => api("get", "/v1/templates", { signal }) });
  const operations = templates.data?.operations ?? [];
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    setBusy(true);
    try {
      const body = requestOf(new FormData(event.currentTarget), data, operations);
      const run = await api("post", "/v1/runs", { body, once });
      navigate(`/runs/${run.id}`);
    } catch (cause) {
      setError(cause);
      setBusy(false);
    }
  };
  return (
    <>
      <Title title="New run"><Link to="/runs" className="button">Back</Link></Title>
      <form onSubmit={(event) => void submit(event)} style={{ maxWidth: "52rem" }}>
        <div className="card">
          <Field label="Question"><textarea name="question" rows={4} required autoFocus /></Field>
          <div className="pair">
            <Field label="Agent">
              <select name="agent">
                <option value="">react: one model with tools</option>
                <option value="pipeline">pipeline: planner, coder, debugger</option>
              </select>
            </Field>
            <Field label="Model"><input name="model" placeholder="the operation's first" spellCheck={false} /></Field>
            <Field label="Model operation">
              <select name="operation"><option value="">the only one</option>{operations.map((it) => <option key={it}>{it}</option>)}</select>
            </Field>
          </div>
          <label><input type="checkbox" name="questions" />The model may ask me questions</label>
        </div>
        <Files chosen={data} choose={setData} />
        <fieldset className="card"><legend className="hidden">Budget</legend><h2>Budget</h2><BudgetFields budget={{}} /></fieldset>
        <details className="card">
          <summary>Sandbox, network and instructions</summary>
          <div className="pair" style={{ marginTop: "0.7rem" }}>
            <Field label="Template">
              <select name="template"><option value="">the server's</option>{templates.data?.items.map((it) => <option key={it.name}>{it.name}</option>)}</select>
            </Field>
            <Field label="Tier">
              <select name="tier"><option value="">the template's</option>{templates.data?.tiers?.map((it) => <option key={it}>{it}</option>)}</select>
            </Field>
            <Field label="Memory in MiB"><input name="memory" type="number" min={64} placeholder="the template's" /></Field>
            <Field label="CPU cores"><input name="cpus" type="number" min={0.1} step="any" placeholder="the template's" /></Field>
          </div>
          <Field label="Hosts that the code may reach" hint="with commas; empty: no network"><input name="hosts" spellCheck={false} /></Field>
          <label className="field"><input type="checkbox" name="packages" />Also the template's package indexes</label>
          {operations.length > 0 && (
            <fieldset className="field" style={{ border: 0, padding: 0, margin: 0 }}>
              <legend className="muted">Operations that the code may call</legend>
              {operations.map((it) => <label key={it}><input type="checkbox" name={`uses:${it}`} />{it}</label>)}
            </fieldset>
          )}
          <Field label="Instructions" hint="added to the model's prompt"><textarea name="instructions" rows={3} /></Field>
          <Field label="Record as" hint="a name for a recording that can be replayed"><input name="record" spellCheck={false} /></Field>
        </details>
        {templates.error && <Problem error={templates.error} what="Cannot load templates" />}
        {error !== undefined && <Problem error={error} what="The run was not created" />}
        <button className="primary" disabled={busy}>Start the run</button>
      </form>
    </>
  );
}
