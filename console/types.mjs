// Writes `src/api/schema.ts` from `openapi.json`; with `--check`, fails if it is not current.
// Errors are left out: all of them have one body, `Problem`.

import { readFileSync, writeFileSync } from "node:fs";
import openapiTS, { astToString, COMMENT_HEADER } from "openapi-typescript";

const document = JSON.parse(readFileSync(new URL("../openapi.json", import.meta.url), "utf8"));
for (const methods of Object.values(document.paths)) {
  for (const operation of Object.values(methods)) {
    if (!operation.responses) continue;
    operation.responses = Object.fromEntries(Object.entries(operation.responses).filter(([status]) => status < 400));
    for (const response of Object.values(operation.responses)) delete response.headers;
    for (const parameter of operation.parameters ?? []) delete parameter.description;
  }
}
delete document.components.responses;
const written = astToString(await openapiTS(document, { defaultNonNullable: false }));
// Fields that say nothing make half of the file.
const made = COMMENT_HEADER + written
  .replace(/^ +\w+\?: never;\n/gm, "")
  .replace(/^ +headers: \{\n +\[name: string\]: unknown;\n +\};\n/gm, "")
  .replace(/^ +parameters: \{\n +\};\n/gm, "")
  .replace(/^ +\/\*\* @description Success\. \*\/\n/gm, "");
const place = new URL("src/api/schema.ts", import.meta.url);
if (!process.argv.includes("--check")) {
  writeFileSync(place, made);
} else if (readFileSync(place, "utf8") !== made) {
  console.error("src/api/schema.ts does not match openapi.json: run `npm run types`");
  process.exit(1);
}
