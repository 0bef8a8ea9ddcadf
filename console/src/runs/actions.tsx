// All that can be done with a run: hold it, step it, talk to it, end it, give it more.

import { useMemo, useState } from "react";
import type { FormEvent } from "react";
import { OnceKey, api, send } from "../api/client";
import type { Run } from "../api/types";
import { navigate } from "../router";
import { Problem } from "../ui/basics";
import { Dialog, Field, numeral, text } from "../ui/dialog";
import { save } from "../ui/file";
import { budgetOf, BudgetFields } from "./budget";

type Verb = "pause" | "resume" | "step" | "cancel";
type Shown = "tell" | "cancel" | "budget" | "retry" | "breakpoints";

interface Props {
  run: Run;
  onChange: () => void;
}

function Dialogs({ run, onChange, shown, close }: Props & { shown: Shown; close: () => void }) {
  const params = { run: run.id };
  const [once] = useState(() => new OnceKey());
  const act = (what: () => Promise<unknown>) => async () => {
    await what();
    onChange();
  };
  switch (shown) {
    case "tell":
      return (
        <Dialog title="Tell the model" action="Send" onClose={close} onAction={async (form) => {
          await api("post", "/v1/runs/{run}/tell", { params, body: { text: text(form, "text") ?? "" }, once });
          onChange();
        }}>
          <Field label="Message" hint="it is said before the next turn"><textarea name="text" rows={4} required autoFocus /></Field>
        </Dialog>
      );
    case "cancel":
      return (
        <Dialog title="Cancel this run?" action="Cancel the run" danger onClose={close} onAction={act(() => api("post", "/v1/runs/{run}/cancel", { params }))}>
          <p>It ends after the current step. What it has by then becomes its result.</p>
        </Dialog>
      );
    case "budget":
      return (
        <Dialog title="Change the budget" action="Change" onClose={close} onAction={async (form) => {
          await api("patch", "/v1/runs/{run}", { params, body: { budget: budgetOf(form) } });
          onChange();
        }}>
          <p className="muted">It applies before the next turn. Empty fields stay as they are.</p>
          <BudgetFields budget={run.budget} />
        </Dialog>
      );
    case "retry":
      return (
        <Dialog title="Try again with more" action="Start the attempt" onClose={close} onAction={async (form) => {
          const memory = numeral(form, "memory");
          const body = { budget: budgetOf(form), memory_bytes: memory && memory * 1024 ** 2 };
          const attempt = await api("post", "/v1/runs/{run}/retry", { params, body });
          navigate(`/runs/${attempt.id}`);
        }}>
          <p className="muted">A new run goes on after the last turn that did something. Without a number, turns that were used up are doubled.</p>
          <BudgetFields budget={{}} />
          <Field label="Memory in MiB" hint="empty: as before"><input name="memory" type="number" min={64} /></Field>
        </Dialog>
      );
    case "breakpoints":
      return (
        <Dialog title="Breakpoints" action="Set" onClose={close} onAction={async (form) => {
          const body = { turns: form.has("turns"), calls: form.has("calls") };
          await api("put", "/v1/runs/{run}/breakpoints", { params, body });
          onChange();
        }}>
          <label className="field"><input type="checkbox" name="turns" defaultChecked={run.breakpoints?.turns} />Pause before each turn</label>
          <label className="field"><input type="checkbox" name="calls" defaultChecked={run.breakpoints?.calls} />Pause before each call</label>
        </Dialog>
      );
  }
}

function Verbs({ run, onChange, show }: Props & { show: (shown: Shown) => void }) {
  const [error, setError] = useState<unknown>();
  // A step that was lost is repeated only until the run has moved on.
  const once = useMemo(() => new OnceKey(), [run.id, run.used.turns]);
  const act = (verb: Verb) => async () => {
    try {
      await api("post", `/v1/runs/{run}/${verb}`, { params: { run: run.id }, once: verb === "step" ? once : undefined });
      setError(undefined);
      onChange();
    } catch (cause) {
      setError(cause);
    }
  };
  const isHeld = run.state === "paused" && !run.question_asked && !run.approval_asked;
  return (
    <>
      {isHeld ? <button onClick={act("resume")}>Resume</button> : <button onClick={act("pause")} disabled={run.state === "paused" || run.asked.includes("pause")}>Pause</button>}
      <button onClick={act("step")} disabled={!isHeld} title="Continue for one turn, then pause">Step</button>
      <button onClick={() => show("tell")}>Tell…</button>
      <button onClick={() => show("budget")}>Budget…</button>
      <button onClick={() => show("breakpoints")}>Breakpoints…</button>
      <button className="danger" onClick={() => show("cancel")} disabled={run.asked.includes("cancel")}>Cancel…</button>
      {run.asked.length > 0 && <span className="muted" role="status">pending: {run.asked.join(", ")}</span>}
      {error !== undefined && <Problem error={error} />}
    </>
  );
}

function Ended({ run, show }: { run: Run; show: (shown: Shown) => void }) {
  const [error, setError] = useState<unknown>();
  const report = async () => {
    try {
      const page = await send("get", "/v1/runs/{run}/report", { params: { run: run.id } });
      save(`${run.id}.html`, await page.blob());
    } catch (cause) {
      setError(cause);
    }
  };
  const canRetry = run.end?.outcome !== "answered" && !run.recording && !run.replay;
  return (
    <>
      {canRetry && <button onClick={() => show("retry")}>Try again…</button>}
      <button onClick={() => void report()} title="One HTML file that loads nothing">Report</button>
      {error !== undefined && <Problem error={error} what="There is no report" />}
    </>
  );
}

export function Actions({ run, onChange }: Props) {
  const [shown, show] = useState<Shown>();
  return (
    <>
      {run.end ? <Ended run={run} show={show} /> : <Verbs run={run} onChange={onChange} show={show} />}
      {shown && <Dialogs run={run} onChange={onChange} shown={shown} close={() => show(undefined)} />}
    </>
  );
}

/** The question that the model asked, and the field for the answer. */
export function Question({ run, onChange }: Props) {
  const [error, setError] = useState<unknown>();
  // The same answer to the next question is another request.
  const once = useMemo(() => new OnceKey(), [run.id, run.question_asked, run.used.turns]);
  if (!run.question_asked || run.end) return null;
  const answer = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    try {
      const body = { text: text(form, "answer") ?? "" };
      await api("post", "/v1/runs/{run}/answer", { params: { run: run.id }, body, once });
      setError(undefined);
      onChange();
    } catch (cause) {
      setError(cause);
    }
  };
  return (
    <form className="notice warn" onSubmit={(event) => void answer(event)} aria-label="Question of the model">
      <b>The model asks:</b>
      <p className="question">{run.question_asked}</p>
      <Field label="Your answer"><textarea name="answer" rows={2} required /></Field>
      <button className="primary">Answer</button>
      {error !== undefined && <Problem error={error} what="The answer was not accepted" />}
    </form>
  );
}
