// Parsers of the languages that runs use.

import { classHighlighter, highlightCode } from "@lezer/highlight";
import { parser as javascript } from "@lezer/javascript";
import { parser as json } from "@lezer/json";
import { parser as python } from "@lezer/python";
import type { Token } from "./code";

const PARSERS: Record<string, { parse: (code: string) => Parameters<typeof highlightCode>[1] }> = {
  python,
  json,
  javascript: javascript.configure({ dialect: "ts" }),
};

export function highlight(code: string, language: string): Token[] {
  const parser = PARSERS[language];
  if (!parser) return [{ text: code, style: "" }];
  const tokens: Token[] = [];
  highlightCode(
    code,
    parser.parse(code),
    classHighlighter,
    (text, style) => tokens.push({ text, style }),
    () => tokens.push({ text: "\n", style: "" }),
  );
  return tokens;
}
