// Log-in with an API key. It is checked before it is kept.

import { useEffect, useState } from "react";
import type { FormEvent } from "react";
import { send, session } from "./api/client";
import { Problem } from "./ui/basics";

export function Login() {
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = "Log in · Belljar";
  }, []);
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const key = String(new FormData(event.currentTarget).get("key")).trim();
    setBusy(true);
    try {
      await send("get", "/v1/runs", { query: { limit: 1 } }, key);
      session.open(key);
    } catch (cause) {
      setError(cause);
      setBusy(false);
    }
  };
  return (
    <main className="login">
      <div className="brand"><img src={`${import.meta.env.BASE_URL}favicon.svg`} alt="" />Belljar</div>
      <h1>Log in</h1>
      <p className="muted">With an API key, such as <code>e2b_…</code>. It stays in this tab. Log out to forget it: browsers may keep it for “reopen closed tab”.</p>
      <form onSubmit={submit}>
        <div className="field">
          <label>
            <span>API key</span>
            <input name="key" type="password" autoComplete="off" spellCheck={false} required autoFocus />
          </label>
        </div>
        {error !== undefined && <Problem error={error} what="Cannot log in" />}
        <button className="primary" disabled={busy}>Log in</button>
      </form>
    </main>
  );
}
