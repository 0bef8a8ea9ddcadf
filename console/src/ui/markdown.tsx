// Markdown of models, as elements of React: no HTML is passed on, and links and pictures load nothing.

import type { ReactNode } from "react";
import { Code } from "./code";

// No search of a branch goes past the next character that could begin the same branch: hostile text
// takes linear time.
const INLINE = /(`[^`]+`)|(\*\*[^*]+\*\*)|(\*[^*\s][^*]*\*)|(!?\[[^\][\n]{0,500}\]\([^)\s[]{0,2000}\))/g;

/** Text with code, emphasis and links. Only addresses of the web become links. */
export function inline(text: string): ReactNode[] {
  const parts: ReactNode[] = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    parts.push(text.slice(end, match.index));
    end = match.index + match[0].length;
    const key = match.index;
    if (match[1]) parts.push(<code key={key}>{match[1].slice(1, -1)}</code>);
    else if (match[2]) parts.push(<strong key={key}>{match[2].slice(2, -2)}</strong>);
    else if (match[3]) parts.push(<em key={key}>{match[3].slice(1, -1)}</em>);
    else parts.push(link(match[0], key));
  }
  parts.push(text.slice(end));
  return parts;
}

function link(text: string, key: number) {
  const [, picture, words, address] = /^(!?)\[([^\]]*)\]\(([^)]*)\)$/.exec(text) ?? [];
  if (picture || !/^https?:\/\//.test(address ?? "")) return <span key={key}>{words}</span>;
  return <a key={key} href={address} target="_blank" rel="noopener noreferrer nofollow">{words}</a>;
}

const cells = (line: string) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

function table(lines: string[], key: number) {
  const [head = [], rule = [], ...rows] = lines.map(cells);
  const side = (column: number) => (/^-+:$/.test(rule[column] ?? "") ? "num" : undefined);
  return (
    <div className="scroll" key={key}>
      <table>
        <thead><tr>{head.map((cell, at) => <th key={at} className={side(at)}>{inline(cell)}</th>)}</tr></thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>{row.map((cell, column) => <td key={column} className={side(column)}>{inline(cell)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function list(lines: string[], key: number) {
  const Tag = /^\s*\d/.test(lines[0] ?? "") ? "ol" : "ul";
  return <Tag key={key}>{lines.map((line, at) => <li key={at}>{inline(line.replace(/^\s*(?:[-*+]|\d+[.)])\s+/, ""))}</li>)}</Tag>;
}

function heading(line: string, key: number) {
  const [, marks = "#", words = ""] = /^(#+)\s+(.*)$/s.exec(line) ?? [];
  const Tag = marks.length === 1 ? "h2" : "h3";
  return <Tag key={key}>{inline(words)}</Tag>;
}

const isList = (line: string) => /^\s*(?:[-*+]|\d+[.)])\s+/.test(line);
const isTable = (line: string, next: string | undefined) => line.includes("|") && /^[\s:|-]+$/.test(next ?? "") && (next ?? "").includes("-");

/** Takes lines from `at` while they belong together. */
function run(lines: string[], at: number, belongs: (line: string) => boolean) {
  let end = at;
  while (end < lines.length && belongs(lines[end] ?? "")) end += 1;
  return end;
}

export function Markdown({ text }: { text: string }) {
  const lines = text.split("\n");
  const blocks: ReactNode[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    let end = at + 1;
    if (line.startsWith("```")) {
      end = run(lines, at + 1, (it) => !it.startsWith("```"));
      const language = line.slice(3).trim();
      blocks.push(<Code key={at} name="Code" code={lines.slice(at + 1, end).join("\n")} language={language} />);
      end += 1;
    } else if (/^#+\s/.test(line)) {
      blocks.push(heading(line, at));
    } else if (isTable(line, lines[at + 1])) {
      end = run(lines, at, (it) => it.includes("|"));
      blocks.push(table(lines.slice(at, end), at));
    } else if (isList(line)) {
      end = run(lines, at, isList);
      blocks.push(list(lines.slice(at, end), at));
    } else if (line.startsWith(">")) {
      end = run(lines, at, (it) => it.startsWith(">"));
      blocks.push(<blockquote key={at}>{inline(lines.slice(at, end).map((it) => it.replace(/^>\s?/, "")).join(" "))}</blockquote>);
    } else if (line.trim() !== "") {
      const first = at;
      end = run(lines, at + 1, (it) => it.trim() !== "" && !/^(#+\s|```|>)/.test(it) && !isList(it));
      blocks.push(<p key={first}>{inline(lines.slice(first, end).join(" "))}</p>);
    }
    at = end;
  }
  return <div className="md">{blocks}</div>;
}
