// The newest workflows.

import { useQuery } from "@tanstack/react-query";
import { api } from "../api/client";
import { count, distance, moment } from "../format";
import { Link, setQuery, useLocation } from "../router";
import { Empty, Loaded, StateOf, Title, useNow } from "../ui/basics";

export default function Workflows() {
  const now = useNow(5000);
  const text = useLocation().query.get("q") ?? "";
  const query = useQuery({
    queryKey: ["workflows"],
    queryFn: ({ signal }) => api("get", "/v1/workflows", { query: { limit: 100 }, signal }),
    refetchInterval: 3000,
  });
  return (
    <>
      <Title title="Workflows" />
      <Loaded query={query} what="workflows">
        {({ items }) => items.length === 0 ? (
          <Empty title="There are no workflows"><p>Start one with <code>belljar workflow run FILE --server URL</code> or <code>POST /v1/workflows</code>.</p></Empty>
        ) : (
          <>
            <div className="bar"><input data-filter type="search" placeholder="Filter  /" aria-label="Filter by name or id" value={text} onChange={(event) => setQuery({ q: event.target.value })} /></div>
            <table>
              <thead><tr><th scope="col">State</th><th scope="col">Workflow</th><th scope="col" className="mid">Id</th><th scope="col" className="num">Events</th><th scope="col" className="num">Age</th></tr></thead>
              <tbody>
                {items.filter((it) => `${it.name} ${it.id}`.includes(text)).map((it) => (
                  <tr key={it.id}>
                    <td><StateOf name={it.state} /></td>
                    <td><Link to={`/workflows/${it.id}`}>{it.name}</Link></td>
                    <td className="mono muted mid">{it.id}</td>
                    <td className="num">{count(it.events)}</td>
                    <td className="num"><time title={moment(it.made_at)}>{distance(it.made_at, now)}</time></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </>
        )}
      </Loaded>
    </>
  );
}
