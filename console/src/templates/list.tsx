// Templates, and the largest limits that a request may choose.

import { useQuery } from "@tanstack/react-query";
import { api } from "../api/client";
import { bytes, count } from "../format";
import { Link } from "../router";
import { Empty, Facts, Loaded, Title } from "../ui/basics";

export default function Templates() {
  const query = useQuery({ queryKey: ["templates"], queryFn: ({ signal }) => api("get", "/v1/templates", { signal }) });
  return (
    <>
      <Title title="Templates" />
      <Loaded query={query} what="templates">
        {({ items, max_limits: most, max_network: network, operations, tiers }) => (
          <>
            {items.length === 0 ? (
              <Empty title="There are no templates"><p>An operator builds one with <code>belljar template build NAME</code>.</p></Empty>
            ) : (
              <div className="scroll" tabIndex={0} role="group" aria-label="Templates">
                <table>
                  <thead><tr><th scope="col">Template</th><th scope="col" className="mid">Version</th><th scope="col" className="mid">Languages</th><th scope="col" className="mid">Tier</th><th scope="col" className="num">Memory</th><th scope="col" className="num mid">Cores</th><th scope="col" className="num wide">Disk</th><th scope="col">Warm</th></tr></thead>
                  <tbody>
                    {items.map((it) => (
                      <tr key={it.name}>
                        <td><Link to={`/sandboxes?q=${encodeURIComponent(it.name)}`} title="Its live sandboxes">{it.name}</Link></td>
                        <td className="mono mid">{it.version}</td>
                        <td className="mid">{it.languages.join(", ")}</td>
                        <td className="mid">{it.tier ?? <span className="muted">the server's</span>}</td>
                        <td className="num">{bytes(it.limits.memory_bytes)}</td>
                        <td className="num mid">{it.limits.cpu_millis / 1000}</td>
                        <td className="num wide">{bytes(it.limits.disk_bytes)}</td>
                        <td>{it.warm ? "yes" : "no"}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
            <div style={{ height: "0.75rem" }} />
            <div className="card">
              <h2>A request may choose</h2>
              <Facts rows={[
                ["Tiers", tiers?.join(", ")],
                ["Memory", most && `at most ${bytes(most.memory_bytes)}`],
                ["CPU cores", most && `at most ${most.cpu_millis / 1000}`],
                ["Disk", most && `at most ${bytes(most.disk_bytes)}`],
                ["Processes", most && `at most ${count(most.pids)}`],
                ["Network", network],
                ["Operations", operations?.join(", ")],
              ]} />
            </div>
          </>
        )}
      </Loaded>
    </>
  );
}
