// Requests to `/v1` with the key of this tab. The types come from `openapi.json`.

import type { components, paths } from "./schema";

type Schemas = components["schemas"];
type Method = "get" | "post" | "put" | "patch" | "delete";
type Json<T> = T extends { content: { "application/json": infer B } } ? B : never;
type Answer<O> = O extends { responses: infer R }
  ? Json<R[keyof R & (200 | 201 | 202)]>
  : never;
type Body<O> = O extends { requestBody?: infer R } ? Json<NonNullable<R>> : never;
/** The paths that have the method. */
type Path<M extends Method> = {
  [P in keyof paths]: paths[P][M & keyof paths[P]] extends { responses: unknown } ? P : never;
}[keyof paths];
type Operation<M extends Method, P extends Path<M>> = paths[P][M & keyof paths[P]];

type Value = string | number | boolean | null | undefined;
export interface Options<B = unknown> {
  params?: Record<string, string | number>;
  query?: Record<string, Value>;
  body?: B;
  /** Sends the `Idempotency-Key` of this form, so that a repeated request is executed once. */
  once?: OnceKey;
  signal?: AbortSignal;
}

/** A refused or failed request: its cause, and the next step. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint?: string | null,
    readonly requestId?: string,
  ) {
    super(message);
  }
}

const KEY = "belljar.key";
const listeners = new Set<() => void>();

/** The API key of this tab. It is forgotten when the tab is closed. */
export const session = {
  key: () => sessionStorage.getItem(KEY),
  open(key: string) {
    sessionStorage.setItem(KEY, key);
    for (const listener of listeners) listener();
  },
  close() {
    sessionStorage.removeItem(KEY);
    for (const listener of listeners) listener();
  },
  subscribe(listener: () => void) {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  },
};

/** A key of a-z, 0-9 and `-`. `crypto.randomUUID` does not exist without TLS. */
function idempotencyKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `console-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/**
 * The idempotency key of one form or dialog. A repeat of the same request has the same key, also after
 * a lost connection. A changed request gets a new key, and so does the next one after a success.
 */
export class OnceKey {
  private request?: string;
  private key = "";

  of(request: string) {
    if (this.request !== request) {
      this.request = request;
      this.key = idempotencyKey();
    }
    return this.key;
  }

  renew() {
    this.request = undefined;
  }
}

/** A request without a response. Only reads are repeated without a click. */
function unreachable(method: Method, options: Options) {
  let hint = "Check the connection. It may have happened: look before you try again.";
  if (method === "get") hint = "Check the connection; this page tries again.";
  else if (options.once) hint = "Check the connection, then try again. A repeat happens only once.";
  return new ApiError(0, "unreachable", "The server does not answer.", hint);
}

function address(path: string, options: Options) {
  const filled = path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(options.params?.[name] ?? ""));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options.query ?? {})) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  return query.size > 0 ? `${filled}?${query}` : filled;
}

async function problem(response: Response) {
  const text = await response.text();
  try {
    const body = JSON.parse(text) as Schemas["Problem"];
    return new ApiError(response.status, body.code, body.message, body.hint, body.request_id);
  } catch {
    return new ApiError(response.status, "no_problem", text.slice(0, 300) || response.statusText);
  }
}

/** Sends a request and returns its response. Every other status than a success is thrown. */
export async function send(method: Method, path: string, options: Options = {}, key = session.key()) {
  const headers = new Headers();
  if (key) headers.set("x-api-key", key);
  let body: BodyInit | undefined;
  if (options.body instanceof Blob) body = options.body;
  else if (options.body !== undefined) {
    headers.set("content-type", "application/json");
    body = JSON.stringify(options.body);
  }
  const url = address(path, options);
  if (options.once) headers.set("idempotency-key", options.once.of(`${method} ${url} ${typeof body === "string" ? body : ""}`));
  const request = { method: method.toUpperCase(), headers, body, signal: options.signal };
  const response = await fetch(url, request).catch((cause: unknown) => {
    if (options.signal?.aborted) throw cause;
    throw unreachable(method, options);
  });
  if (response.ok) return response;
  const error = await problem(response);
  // A key that is refused later has expired or was revoked.
  if (response.status === 401 && key === session.key()) session.close();
  throw error;
}

/** Sends a request and returns the JSON of its response. */
export async function api<M extends Method, P extends Path<M>>(
  method: M,
  path: P,
  options: Options<Body<Operation<M, P>>> = {},
): Promise<Answer<Operation<M, P>>> {
  const response = await send(method, path, options as Options);
  const text = await response.text().catch((cause: unknown) => {
    if (options.signal?.aborted) throw cause;
    throw unreachable(method, options as Options);
  });
  // Before this point the caller does not know that it succeeded, and has to repeat it with the same key.
  options.once?.renew();
  return (text === "" ? undefined : JSON.parse(text)) as Answer<Operation<M, P>>;
}

/** Reads a file. The caller bounds what it shows of it. */
export async function blob(path: Path<"get">, options: Options) {
  return (await send("get", path, options)).blob();
}
