// Server-sent events with an API key: `EventSource` cannot send headers.

import { ApiError, send } from "./client";
import type { Options } from "./client";

export interface StreamEvent {
  name: string;
  id?: string;
  data: string;
}

/** Splits a stream into events, as the standard says for UTF-8 streams. */
export class EventParser {
  private pieces: string[] = [];

  push(text: string): StreamEvent[] {
    this.pieces.push(text);
    // A large event comes in many pieces. It is only put together at the end of a line.
    if (!text.includes("\n")) return [];
    const blocks = this.pieces.join("").replaceAll("\r\n", "\n").split("\n\n");
    this.pieces = [blocks.pop() ?? ""];
    return blocks.flatMap((block) => this.parse(block));
  }

  private parse(block: string): StreamEvent[] {
    const event: StreamEvent = { name: "message", data: "" };
    const data: string[] = [];
    for (const line of block.split("\n")) {
      const colon = line.indexOf(":");
      if (colon <= 0) continue;
      const value = line.slice(colon + 1).replace(/^ /, "");
      const field = line.slice(0, colon);
      if (field === "event") event.name = value;
      else if (field === "data") data.push(value);
      else if (field === "id") event.id = value;
    }
    return data.length > 0 ? [{ ...event, data: data.join("\n") }] : [];
  }
}

interface Follow {
  path: string;
  options: Options;
  signal: AbortSignal;
  /** Returns true after the last event: then no connection follows. */
  onEvents: (events: StreamEvent[]) => boolean;
  onState: (state: "live" | "waiting", error?: ApiError) => void;
  /** Query that continues the stream where it was cut. */
  resume: () => Options["query"];
}

const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });

async function read(follow: Follow) {
  const { path, options, signal } = follow;
  const response = await send("get", path, { ...options, query: { ...options.query, ...follow.resume() }, signal });
  const reader = response.body?.getReader();
  if (!reader) throw new ApiError(0, "no_stream", "The response has no body.");
  follow.onState("live");
  const decoder = new TextDecoder();
  const parser = new EventParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return false;
      if (follow.onEvents(parser.push(decoder.decode(value, { stream: true })))) return true;
    }
  } finally {
    // Otherwise a reader that fails keeps the connection.
    await reader.cancel().catch(() => undefined);
  }
}

/** Starts while the document is visible, aborts when it is hidden, and starts again. Returns the end of that. */
export function whileVisible(page: Pick<Document, "visibilityState"> & EventTarget, start: (signal: AbortSignal) => void) {
  let running: AbortController | undefined;
  const change = () => {
    if (page.visibilityState === "hidden") {
      running?.abort();
      running = undefined;
    } else if (!running) {
      running = new AbortController();
      start(running.signal);
    }
  };
  page.addEventListener("visibilitychange", change);
  change();
  return () => {
    page.removeEventListener("visibilitychange", change);
    running?.abort();
  };
}

/** Follows a stream until its last event, and connects again when it is cut. */
export async function follow(follow: Follow) {
  for (let tries = 0; !follow.signal.aborted; tries += 1) {
    try {
      if (await read(follow)) return;
      tries = 0;
    } catch (cause) {
      if (follow.signal.aborted) return;
      const error = cause instanceof ApiError ? cause : new ApiError(0, "unreachable", "The stream was cut.");
      follow.onState("waiting", error);
      if (error.status >= 400 && error.status < 500 && error.status !== 429) return;
    }
    await pause(Math.min(500 * 2 ** tries, 15_000), follow.signal);
  }
}
