// The arguments of a call: code and commands as such, and all others as JSON.

import { Code } from "../ui/code";
import { Markdown } from "../ui/markdown";

export type Input = Record<string, unknown>;

function leading(input: Input) {
  const of = (name: string) => (typeof input[name] === "string" ? input[name] : undefined);
  const [code, command, question, answer, content, path] = ["code", "command", "question", "answer", "content", "path"].map(of);
  if (code !== undefined) return { shown: ["code"], part: <Code joined code={code} language="python" name="Code" /> };
  if (command !== undefined) return { shown: ["command"], part: <Code joined code={command} language="shell" name="Command" /> };
  if (question !== undefined) return { shown: ["question"], part: <p className="said">{question}</p> };
  if (answer !== undefined) return { shown: ["answer"], part: <div className="said"><Markdown text={answer} /></div> };
  if (content !== undefined) {
    const language = path?.endsWith(".py") ? "python" : "";
    return { shown: ["content", "path"], part: <Code joined code={content} language={language} name={`Content of ${path}`} /> };
  }
  return { shown: [], part: null };
}

/** The code of a call, or its arguments. With `whole`, nothing is left out. */
export function Arguments({ input, whole = false }: { input: Input; whole?: boolean }) {
  const { shown, part } = leading(input);
  const all = JSON.stringify(input, null, 2);
  if (!part) return <Code joined code={all} language="json" name="Arguments" />;
  const hidden = whole && Object.keys(input).some((name) => name === "path" || !shown.includes(name));
  return <>{part}{hidden && <Code joined code={all} language="json" name="All arguments" />}</>;
}
