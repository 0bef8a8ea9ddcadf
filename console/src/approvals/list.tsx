// Requests of code that wait for a person.

import { useQuery } from "@tanstack/react-query";
import { Empty, Loaded, Title, useNow } from "../ui/basics";
import { approvals, Waiting } from "./waiting";

export default function Approvals() {
  const now = useNow();
  const query = useQuery(approvals);
  return (
    <>
      <Title title="Approvals" />
      <Loaded query={query} what="approvals">
        {({ items }) => items.length === 0 ? (
          <Empty title="Nothing waits for you">
            <p>Pushes, merge requests and tool calls that want approval wait here until a person decides.</p>
          </Empty>
        ) : (
          <div style={{ maxWidth: "52rem" }}>{items.map((it) => <Waiting key={it.id} approval={it} now={now} />)}</div>
        )}
      </Loaded>
    </>
  );
}
