// The share of a run's budget that is used.

import { useQuery } from "@tanstack/react-query";
import { runQuery } from "../runs/lines";

export function RunBudgetBar({ run }: { run: string }) {
  const { data } = useQuery({ ...runQuery({ id: run, state: "finished" }), staleTime: 30_000 });
  if (!data) return null;
  const { budget, used } = data;
  const [name, share] = budget.nano_dollars
    ? ["cost", used.nano_dollars / budget.nano_dollars]
    : budget.turns
      ? ["turns", used.turns / budget.turns]
      : [undefined, 0];
  if (!name) return <span className="muted">no bound</span>;
  const words = `${Math.round(share * 100)} % of its ${name}`;
  return <meter aria-label={words} title={words} min={0} max={1} low={0.75} high={0.95} optimum={0} value={Math.min(share, 1)} />;
}
