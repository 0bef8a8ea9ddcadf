// Code and output. CodeMirror's parsers (Lezer) mark the code; there is no editor, whose styles the policy forbids.

import { useEffect, useState } from "react";
import type { ReactNode } from "react";
import { count } from "../format";

export interface Token {
  text: string;
  style: string;
}

const PATIENCE = 20_000;
const HIGHLIGHTED = 100_000;

/** Code in the colours of its language. The parsers are loaded when the first code is shown. */
export function Code({ code, language, name, joined }: { code: string; language: string; name: string; joined?: boolean }) {
  const [tokens, setTokens] = useState<Token[]>();
  useEffect(() => {
    let current = true;
    if (code.length <= HIGHLIGHTED) {
      void import("./highlight").then((it) => current && setTokens(it.highlight(code, language))).catch(() => undefined);
    }
    return () => void (current = false);
  }, [code, language]);
  const body: ReactNode = tokens
    ? tokens.map((token, at) => (token.style ? <span key={at} className={token.style}>{token.text}</span> : token.text))
    : code;
  return <pre className={joined ? "code in" : "code"} tabIndex={0} role="group" aria-label={name}><code>{body}</code></pre>;
}

// Sequences of terminals: colours, cursor, titles. A page has no use for them.
const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g;

export const plain = (text: string) => text.replace(ESCAPES, "");

/** The output of a call. Long output is shown when it is asked for. */
export function Output({ text, name, joined = true }: { text: string; name: string; joined?: boolean }) {
  const [whole, setWhole] = useState(false);
  const clean = plain(text);
  const long = clean.length > PATIENCE;
  return (
    <>
      <pre className={joined ? "code out" : "code"} tabIndex={0} role="group" aria-label={name}>
        {long && !whole ? `${clean.slice(0, PATIENCE)}…` : clean}
      </pre>
      {long && !whole && (
        <button className="link" onClick={() => setWhole(true)}>Show all {count(clean.length)} characters</button>
      )}
    </>
  );
}
