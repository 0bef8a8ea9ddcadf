// Follows the events of a run, and has the page drawn at most once a frame.

import { useEffect, useRef, useState } from "react";
import type { ApiError } from "../api/client";
import { follow } from "../api/stream";
import { Transcript } from "./transcript";

export interface Followed {
  transcript: Transcript;
  version: number;
  state: "connecting" | "live" | "waiting";
  error?: ApiError;
}

export function useTranscript(run: string): Followed {
  const transcript = useRef(new Transcript());
  const [shown, setShown] = useState<Omit<Followed, "transcript">>({ version: 0, state: "connecting" });
  useEffect(() => {
    const one = (transcript.current = new Transcript());
    const stop = new AbortController();
    let frame = 0;
    const draw = () => {
      frame = 0;
      setShown((before) => ({ ...before, version: one.version }));
    };
    void follow({
      path: "/v1/runs/{run}/events",
      options: { params: { run }, query: { deltas: true } },
      signal: stop.signal,
      resume: () => ({ from: one.seq + 1 }),
      onEvents(events) {
        for (const event of events) one.add(event.name, event.data);
        if (frame === 0 && events.length > 0) frame = requestAnimationFrame(draw);
        return one.isFinished;
      },
      onState: (state, error) => setShown((before) => ({ ...before, state, error })),
    });
    return () => {
      stop.abort();
      cancelAnimationFrame(frame);
    };
  }, [run]);
  return { transcript: transcript.current, ...shown };
}
