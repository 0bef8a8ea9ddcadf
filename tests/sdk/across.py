"""What only many nodes can get wrong: lists, pages, figures and events of sandboxes on all of them."""

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

# Enough that every node has some.
SANDBOXES = 9
# The first characters of an id are its node's number.
MARK = 3


class Wrong(Exception):
    pass


def ask(url, key, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"X-API-Key": key, "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}{path}", method=method, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
        return (json.loads(text) if text else None), answer.headers


def run(cluster, nodes):
    """Returns what went wrong."""
    wrong, seen, opened = [], [], threading.Event()
    listening = threading.Thread(target=listen, args=(cluster, seen, opened), daemon=True)
    listening.start()
    opened.wait(60)
    await_nodes(cluster, nodes)
    made = [create(cluster, number) for number in range(SANDBOXES)]
    try:
        if len({id[:MARK] for id in made}) != nodes:
            wrong.append(f"{SANDBOXES} sandboxes are not on all of {nodes} nodes: {made}")
        for check in (own_pages, e2b_pages, one_list, figures, by_metadata):
            try:
                check(cluster, made)
            except (Wrong, urllib.error.HTTPError) as error:
                wrong.append(f"{check.__name__}: {error}")
    finally:
        for id in made:
            ask(cluster.data, cluster.key, "DELETE", f"/sandboxes/{id}")
    deadline = time.monotonic() + 60
    while (missing := unheard(made, seen)) and time.monotonic() < deadline:
        time.sleep(0.1)
    wrong += [f"events: {what}" for what in missing]
    ended = ask(cluster.data, cluster.key, "GET", "/v1/ended?limit=100")[0]["items"]
    reasons = {item["id"]: item["reason"] for item in ended}
    wrong += [f"ended: {id} as {reasons.get(id)}" for id in made if reasons.get(id) != "killed"]
    return wrong


def await_nodes(cluster, nodes):
    """Waits until every node takes sandboxes: the cluster is ready as soon as one of them is warm."""
    taking, deadline = set(), time.monotonic() + 120
    while len(taking) < nodes and time.monotonic() < deadline:
        id = create(cluster, len(taking), across="no")
        taking.add(id[:MARK])
        ask(cluster.data, cluster.key, "DELETE", f"/sandboxes/{id}")
        time.sleep(0.2)


def create(cluster, number, across="yes"):
    body = {"metadata": {"across": across, "number": str(number)}}
    return ask(cluster.api, cluster.key, "POST", "/v1/sandboxes", body)[0]["id"]


def pages(cluster, path, items, following):
    """All items, three at a time; each page is asked of the other control."""
    found, token, urls = [], None, [cluster.data, cluster.api]
    while True:
        query = f"&{following}={urllib.parse.quote(token)}" if token else ""
        body, headers = ask(urls[0], cluster.key, "GET", f"{path}{query}")
        page = body["items"] if items else body
        if len(page) > 3:
            raise Wrong(f"a page of {len(page)}")
        found += page
        token = body.get("next") if items else headers["x-next-token"]
        if items and "next" in body and not token:
            raise Wrong("a next page that is nowhere")
        if not token:
            return found
        urls.reverse()


def same(found, wanted):
    if found != wanted:
        raise Wrong(f"{found} instead of {wanted}")


def own_pages(cluster, made):
    found = pages(cluster, "/v1/sandboxes?limit=3", True, "after")
    same([item["id"] for item in found], made[::-1])


def e2b_pages(cluster, made):
    found = pages(cluster, "/v2/sandboxes?limit=3", False, "nextToken")
    same([item["sandboxID"] for item in found], made[::-1])


def one_list(cluster, made):
    found, _ = ask(cluster.api, cluster.key, "GET", "/sandboxes")
    same(sorted(item["sandboxID"] for item in found), sorted(made))


def by_metadata(cluster, made):
    query = urllib.parse.quote("across=yes&number=4")
    found, _ = ask(cluster.api, cluster.key, "GET", f"/v2/sandboxes?metadata={query}")
    same([item["sandboxID"] for item in found], [made[4]])


def figures(cluster, made):
    query = urllib.parse.quote(",".join(made))
    found, _ = ask(cluster.data, cluster.key, "GET", f"/sandboxes/metrics?sandbox_ids={query}")
    same(sorted(found["sandboxes"]), sorted(made))


def listen(cluster, seen, opened):
    request = urllib.request.Request(f"{cluster.data}/v1/events", headers={"X-API-Key": cluster.key})
    with urllib.request.urlopen(request, timeout=120) as stream:
        opened.set()
        for line in stream:
            if line.startswith(b"data:"):
                seen.append(json.loads(line[5:]))


def unheard(made, seen):
    told = {(event.get("sandbox"), event.get("kind")) for event in list(seen)}
    wanted = [(id, kind) for id in made for kind in ("created", "ended")]
    return [f"{id} was not told as {kind}" for id, kind in wanted if (id, kind) not in told]
