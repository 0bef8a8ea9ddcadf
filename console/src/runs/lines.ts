// The lines of the list of runs. The newest page is asked for again and again; older pages stay.

import { keepPreviousData, queryOptions, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState } from "react";
import { api } from "../api/client";
import { every, untilEnd } from "../api/poll";
import type { Run, RunLine } from "../api/types";

const PAGE = 50;
const AGAIN = 2000;
/** So far down a list that new rows at its top would move what is read. */
const AT_TOP = 40;

/** A run. One that has ended never changes. */
export const runQuery = (line: Pick<RunLine, "id" | "state">) =>
  queryOptions({
    queryKey: ["run", line.id, line.state === "finished"],
    queryFn: ({ signal }) => api("get", "/v1/runs/{run}", { params: { run: line.id }, signal }),
    placeholderData: keepPreviousData,
    staleTime: line.state === "finished" ? Infinity : AGAIN,
    refetchInterval: line.state === "finished" ? false : untilEnd(AGAIN),
  });

/** All runs of the lines, by id, once they are asked for. They are filtered by what never changes, so none is polled. */
export function useRunsOf(lines: RunLine[], wanted: boolean): Map<string, Run> {
  const queries = useQueryClient();
  const asked = useQueries({
    queries: (wanted ? lines : []).map((line) => ({ ...runQuery(line), staleTime: Infinity, refetchInterval: false as const })),
    combine: (results) => results.filter((it) => it.data).length,
  });
  return useMemo(() => {
    const runs = queries.getQueriesData<Run>({ queryKey: ["run"] });
    return new Map(runs.flatMap(([, run]) => (run ? [[run.id, run]] : [])));
  }, [queries, asked, lines]);
}

export interface Older {
  state: string;
  lines: RunLine[];
  next?: string;
}

/**
 * Adds the newest page to the lines that were loaded with older pages. If the two do not overlap, runs
 * between them were never loaded, so the older pages are discarded.
 */
export function absorb(older: Older | undefined, head: RunLine[]): Older | undefined {
  if (!older) return undefined;
  const lines = new Map(older.lines.map((line) => [line.id, line]));
  if (!head.some((line) => lines.has(line.id))) return undefined;
  if (head.every((line) => lines.get(line.id) === line)) return older;
  for (const line of head) lines.set(line.id, line);
  return { ...older, lines: [...lines.values()] };
}

export function useRunLines(state: string) {
  const page = (after: string | undefined, signal?: AbortSignal) =>
    api("get", "/v1/runs", { query: { limit: PAGE, state, after }, signal });
  const head = useQuery({
    queryKey: ["runs", state],
    queryFn: ({ signal }) => page(undefined, signal),
    refetchInterval: every(AGAIN),
  });
  const [older, setOlder] = useState<Older>();
  const [loading, setLoading] = useState(false);
  const [failed, setFailed] = useState<unknown>();
  // The newest run that is shown. Newer ones wait while the reader is further down.
  const [top, setTop] = useState<string>();

  useEffect(() => {
    setOlder(undefined);
    setTop(undefined);
  }, [state]);

  const items = head.data?.items;
  useEffect(() => {
    if (items) setOlder((before) => (before?.state === state ? absorb(before, items) : before));
  }, [items, older, state]);

  const known = older?.state === state ? older : undefined;
  const next = known ? known.next : (head.data?.next ?? undefined);
  const all = useMemo(() => {
    const lines = new Map<string, RunLine>();
    for (const line of [...(head.data?.items ?? []), ...(known?.lines ?? [])]) {
      if (!lines.has(line.id)) lines.set(line.id, line);
    }
    return [...lines.values()].sort((a, b) => (a.made_at < b.made_at ? 1 : -1));
  }, [head.data, known]);

  const first = all.findIndex((line) => line.id === top);
  const newest = all[0]?.id;
  useEffect(() => {
    const main = document.getElementById("main");
    if (!main || main.scrollTop < AT_TOP || first < 0) setTop(newest);
  }, [newest, first]);

  const loadMore = useCallback(async () => {
    if (!next || loading) return;
    setLoading(true);
    try {
      const more = await page(next);
      setOlder((before) => ({
        state,
        // The head moves on; what it had when the next page was asked for stays.
        lines: [...(before?.state === state ? before.lines : (head.data?.items ?? [])), ...more.items],
        next: more.next ?? undefined,
      }));
      setFailed(undefined);
    } catch (error) {
      setFailed(error);
    }
    setLoading(false);
  }, [next, loading, state, head.data]);

  return {
    lines: first > 0 ? all.slice(first) : all,
    fresh: Math.max(first, 0),
    showFresh: () => {
      document.getElementById("main")?.scrollTo(0, 0);
      setTop(newest);
    },
    more: next !== undefined && failed === undefined,
    loadMore: () => void loadMore(),
    loading: head.isPending && !head.error,
    error: failed ?? head.error,
    retry: () => {
      setFailed(undefined);
      void head.refetch();
    },
  };
}
