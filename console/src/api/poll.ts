// Time between two requests of a query.

import { ApiError } from "./client";

const TOO_MANY = 429;

/** Returns true if a repeat would be refused again. */
export const isRefused = (error: unknown) =>
  error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== TOO_MANY;

interface Polled<T> {
  state: { data: T | undefined; error: unknown };
}

/** An interval that stops when the server refuses the request. */
export const every =
  (ms: number) =>
  ({ state }: Polled<unknown>) =>
    isRefused(state.error) ? false : ms;

/** An interval that also stops when the run has ended: it never changes again. */
export const untilEnd = (ms: number) => (query: Polled<{ end?: unknown }>) => (query.state.data?.end ? false : every(ms)(query));
