// Follows the events of a run, and has the page drawn at most once a frame.
//
// Over HTTP/1.1 a browser has six connections for all its tabs, so a hidden tab holds none: it goes on
// with the next event when it is shown again.

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import type { ApiError } from "../api/client";
import { follow, whileVisible } from "../api/stream";
import { Transcript } from "./transcript";

/** Events that arrive together make one request for the run. */
const REFETCH_DELAY = 1000;
/** The state of a run may change a moment after its event. */
const SETTLE_DELAY = 1500;

export interface Followed {
  transcript: Transcript;
  version: number;
  state: "connecting" | "live" | "waiting";
  error?: ApiError;
}

export function useTranscript(run: string): Followed {
  const transcript = useRef(new Transcript());
  const [shown, setShown] = useState<Omit<Followed, "transcript">>({ version: 0, state: "connecting" });
  const queries = useQueryClient();
  useEffect(() => {
    const one = (transcript.current = new Transcript());
    let frame = 0;
    const draw = () => {
      frame = 0;
      setShown((before) => ({ ...before, version: one.version }));
    };
    let soon: ReturnType<typeof setTimeout> | undefined;
    let settled: ReturnType<typeof setTimeout> | undefined;
    const refetch = (cancelRefetch: boolean) => void queries.invalidateQueries({ queryKey: ["run", run, "page"] }, { cancelRefetch });
    const refetchAfterEvents = () => {
      soon ??= setTimeout(() => {
        soon = undefined;
        // A slow response is not cancelled by the next event.
        refetch(false);
      }, REFETCH_DELAY);
      clearTimeout(settled);
      settled = setTimeout(() => refetch(true), SETTLE_DELAY);
    };
    const start = (signal: AbortSignal) =>
      void follow({
        path: "/v1/runs/{run}/events",
        options: { params: { run }, query: { deltas: true } },
        signal,
        resume: () => ({ from: one.seq + 1 }),
        onEvents(events) {
          for (const event of events) one.add(event.name, event.data);
          if (frame === 0 && events.length > 0) frame = requestAnimationFrame(draw);
          if (events.some((event) => event.name !== "delta")) refetchAfterEvents();
          return one.isFinished;
        },
        onState: (state, error) => setShown((before) => ({ ...before, state, error })),
      });
    const stop = whileVisible(document, (signal) => {
      if (!one.isFinished) start(signal);
    });
    return () => {
      stop();
      clearTimeout(soon);
      clearTimeout(settled);
      cancelAnimationFrame(frame);
    };
  }, [run, queries]);
  return { transcript: transcript.current, ...shown };
}
