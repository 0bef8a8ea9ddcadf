// Requests of code that wait for a person.

import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import type { Approval } from "../api/types";
import { Empty, Loaded, Title, useNow } from "../ui/basics";
import { approvals, keepInPlace, Waiting } from "./waiting";

export default function Approvals() {
  const now = useNow();
  const query = useQuery(approvals);
  const [shown, setShown] = useState<Approval[]>([]);
  const items = query.data?.items;
  useEffect(() => {
    if (items) setShown((before) => keepInPlace(before, items));
  }, [items]);
  const waiting = new Set(items?.map((it) => it.id));
  const decided = shown.filter((it) => !waiting.has(it.id)).length;
  return (
    <>
      <Title title="Approvals">
        {shown.length > 0 && <button disabled={decided === 0} onClick={() => setShown(items ?? [])}>Hide decided</button>}
      </Title>
      <Loaded query={query} what="approvals">
        {({ items }) => items.length === 0 && shown.length === 0 ? (
          <Empty title="Nothing waits for you">
            <p>Pushes, merge requests and tool calls that want approval wait here until a person decides.</p>
          </Empty>
        ) : (
          <div style={{ maxWidth: "52rem" }}>{shown.map((it) => <Waiting key={it.id} approval={it} now={now} over={!waiting.has(it.id)} />)}</div>
        )}
      </Loaded>
    </>
  );
}
