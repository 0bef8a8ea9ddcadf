//! The two ports of a sandbox that the server answers itself: 49983, the agent, and 49999,
//! the code interpreter. Without the sandbox's token they tell whether it runs, no more.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::world::World;

const AGENT: &str = "49983";
const INTERPRETER: &str = "49999";

/// A request to one of the ports that would do something.
type Request<'a> = (&'a str, &'a str, &'a str, Value);

/// A header and its value.
type Shown<'a> = Option<(&'a str, &'a str)>;

const OWN: &str = "x-access-token";
const FOR_PORTS: &str = "e2b-traffic-access-token";

/// API-08/ports: everything but `/health` needs the token, and nothing wakes without it.
pub(crate) async fn need_the_token(world: &World) -> anyhow::Result<String> {
    let (a, nobody) = (&world.a, &world.nobody);
    let made = [make(a).await?, make(&world.b).await?];
    let [Made { sandbox, token, port_token }, foreign] = &made;
    let (own, for_ports) = (Some((OWN, token.as_str())), Some((FOR_PORTS, port_token.as_str())));
    let kept = inside(nobody, sandbox, own, &new_context()).await?;
    let kept = kept.expect(200)?.value()?;
    let kept = kept["id"].as_str().context("no context")?.to_owned();
    let all = requests(&kept);
    let zeros = "0".repeat(40);
    let mut wrong: Vec<Shown<'_>> = vec![None, Some((OWN, port_token)), Some((FOR_PORTS, token))];
    wrong.extend(
        ["", zeros.as_str(), &foreign.token, &foreign.port_token].map(|it| Some((OWN, it))),
    );
    wrong.extend(["", zeros.as_str(), &foreign.port_token].map(|it| Some((FOR_PORTS, it))));
    let mut refused = 0;
    for request in &all {
        // The agent takes no token for ports, not even the right one.
        let for_ports = (request.0 == AGENT).then_some(for_ports);
        for shown in wrong.iter().copied().chain(for_ports) {
            let answer = inside(nobody, sandbox, shown, request).await?;
            let text = answer.text();
            let what = format!("{} {} on {} with {shown:?}", request.1, request.2, request.0);
            ensure!(is_refused(&answer), "{what}: {} {text}", answer.status);
            refused += 1;
        }
    }
    // The owner's context is still there, with nothing beside it.
    let list = (INTERPRETER, "GET", "/contexts", Value::Null);
    let list = inside(nobody, sandbox, for_ports, &list).await?.expect(200)?.text();
    ensure!(list.contains(&kept), "the owner's context is gone: {list}");
    ensure!(!list.contains("/tmp/of-a-stranger"), "a context more: {list}");

    // Nothing without the token wakes a paused sandbox, which its owner pays for.
    let path = format!("/sandboxes/{sandbox}/pause");
    a.send("POST", &path, "").await?.expect(204)?;
    for request in all.iter().chain(&health()) {
        inside(nobody, sandbox, None, request).await?;
        let state = a.get(&format!("/v1/sandboxes/{sandbox}")).await?.expect(200)?.value()?;
        ensure!(state["state"] == "paused", "{} woke it: {state}", request.2);
    }
    // The control: with the token each is answered, and the first wakes it.
    let mut answered = 0;
    for request in &all {
        let shown = if request.0 == AGENT { own } else { for_ports };
        let answer = inside(nobody, sandbox, shown, request).await?;
        ensure!(!is_refused(&answer), "{} {}: {}", request.1, request.2, answer.text());
        ensure!(answer.status < 500, "{} {}: {}", request.1, request.2, answer.text());
        answered += 1;
    }
    // Who asks whether it is well need show nothing.
    for request in health() {
        let answer = inside(nobody, sandbox, None, &request).await?;
        ensure!(answer.is_success(), "{}: {} {}", request.0, answer.status, answer.text());
    }
    Ok(format!("{refused} refused, {answered} answered with the token"))
}

struct Made {
    sandbox: String,
    token: String,
    port_token: String,
}

/// Makes a sandbox that wakes when it is asked for something.
async fn make(client: &Client) -> anyhow::Result<Made> {
    let wish = json!({
        "templateID": "base",
        "autoPause": true,
        "autoResume": { "enabled": true },
        "secure": true,
    });
    let made = client.json("POST", "/sandboxes", &wish).await?.expect(201)?.value()?;
    let text = |name: &'static str| made[name].as_str().map(str::to_owned).context(name);
    Ok(Made {
        sandbox: text("sandboxID")?,
        token: text("envdAccessToken")?,
        port_token: text("trafficAccessToken")?,
    })
}

fn new_context() -> Request<'static> {
    (INTERPRETER, "POST", "/contexts", json!({ "language": "python", "cwd": "/tmp" }))
}

fn health() -> [Request<'static>; 2] {
    [(AGENT, "GET", "/health", Value::Null), (INTERPRETER, "GET", "/health", Value::Null)]
}

fn requests(context: &str) -> Vec<Request<'static>> {
    let restart = format!("/contexts/{context}/restart").leak() as &str;
    let delete = format!("/contexts/{context}").leak() as &str;
    let path = json!({ "path": "/tmp" });
    vec![
        // First: a context below starts in that directory.
        (AGENT, "POST", "/filesystem.Filesystem/MakeDir", json!({ "path": "/tmp/of-a-stranger" })),
        (INTERPRETER, "GET", "/contexts", Value::Null),
        (INTERPRETER, "POST", "/contexts", json!({ "cwd": "/tmp/of-a-stranger" })),
        (INTERPRETER, "POST", restart, json!({})),
        (INTERPRETER, "POST", "/contexts/python/restart", json!({})),
        (INTERPRETER, "POST", "/execute", json!({ "code": "1 + 1" })),
        (INTERPRETER, "GET", "/", Value::Null),
        (INTERPRETER, "GET", "/contexts/", Value::Null),
        (INTERPRETER, "POST", "/health", json!({})),
        (AGENT, "GET", "/metrics", Value::Null),
        (AGENT, "GET", "/envs", Value::Null),
        (AGENT, "GET", "/files?path=/etc/passwd", Value::Null),
        (AGENT, "POST", "/process.Process/List", json!({})),
        (AGENT, "POST", "/filesystem.Filesystem/ListDir", path.clone()),
        (AGENT, "POST", "/filesystem.Filesystem/Stat", path),
        (INTERPRETER, "DELETE", delete, Value::Null),
    ]
}

async fn inside(
    client: &Client,
    sandbox: &str,
    shown: Shown<'_>,
    (port, method, path, body): &Request<'_>,
) -> anyhow::Result<Answer> {
    let mut headers = vec![("e2b-sandbox-id", sandbox), ("e2b-sandbox-port", port)];
    headers.extend(shown);
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.send_with(method, path, &headers, body).await
}

fn is_refused(answer: &Answer) -> bool {
    answer.status == 401
}
