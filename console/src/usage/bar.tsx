// The share of a run's budget that is used.

import { queryOptions, useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { api } from "../api/client";
import { untilEnd } from "../api/poll";
import type { Run } from "../api/types";

const AGAIN = 30_000;

/** The run of a bar. Charges do not tell if it has ended, so it is not the entry of a finished run. */
export const barQuery = (run: string) =>
  queryOptions({
    queryKey: ["run", run, "bar"],
    queryFn: ({ signal }) => api("get", "/v1/runs/{run}", { params: { run }, signal }),
    staleTime: AGAIN,
    refetchInterval: untilEnd(AGAIN),
  });

/** The bar of one row. Its run is only loaded while the row is in view. */
export function RunBudgetBar({ run }: { run: string }) {
  const cell = useRef<HTMLSpanElement>(null);
  const [isInView, setInView] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => setInView(entries.at(-1)?.isIntersecting ?? false));
    if (cell.current) observer.observe(cell.current);
    return () => observer.disconnect();
  }, []);
  const { data } = useQuery({ ...barQuery(run), enabled: isInView });
  return <span ref={cell}>{data ? <Bar run={data} /> : "\u00a0"}</span>;
}

function Bar({ run }: { run: Run }) {
  const { budget, used } = run;
  const [name, share] = budget.nano_dollars
    ? ["cost", used.nano_dollars / budget.nano_dollars]
    : budget.turns
      ? ["turns", used.turns / budget.turns]
      : [undefined, 0];
  if (!name) return <span className="muted">no bound</span>;
  const words = `${Math.round(share * 100)} % of its ${name}`;
  return <meter aria-label={words} title={words} min={0} max={1} low={0.75} high={0.95} optimum={0} value={Math.min(share, 1)} />;
}
