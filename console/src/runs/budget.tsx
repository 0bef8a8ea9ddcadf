// The fields of a budget, in units of people.

import type { RunBudget } from "../api/types";
import { Field, numeral } from "../ui/dialog";

const NANO = 1e9;
const MINUTE = 60_000;

/** The budget in a form; empty fields are absent. */
export function budgetOf(form: FormData): RunBudget {
  const scaled = (name: string, by: number) => {
    const value = numeral(form, name);
    return value === undefined ? undefined : Math.round(value * by);
  };
  return {
    turns: scaled("turns", 1),
    nano_dollars: scaled("dollars", NANO),
    tokens: scaled("tokens", 1),
    wall_ms: scaled("minutes", MINUTE),
  };
}

const divided = (value: number | null | undefined, by: number) => (value ? value / by : undefined);

export function BudgetFields({ budget }: { budget: RunBudget }) {
  return (
    <div className="pair">
      <Field label="Turns"><input name="turns" type="number" min={1} placeholder={String(budget.turns ?? 30)} /></Field>
      <Field label="Dollars"><input name="dollars" type="number" min={0} step="any" placeholder={String(divided(budget.nano_dollars, NANO) ?? "no bound")} /></Field>
      <Field label="Tokens"><input name="tokens" type="number" min={1} placeholder={String(budget.tokens ?? "no bound")} /></Field>
      <Field label="Minutes"><input name="minutes" type="number" min={0} step="any" placeholder={String(divided(budget.wall_ms, MINUTE) ?? "no bound")} /></Field>
    </div>
  );
}
