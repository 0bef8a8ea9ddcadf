//! A sandbox's own token: what it opens without a key, and what it does not.

use anyhow::{Context as _, ensure};
use belljar_testkit::Undecided;
use serde_json::json;

use crate::client::{Answer, Client, HANG_LIMIT};
use crate::platform::Platform;
use crate::routes::{self, Sample};
use crate::world::{Belongings, World};

const TOKEN: &str = "x-access-token";
const NODE: &str = "the node";

/// API-08/token: on a server by itself.
pub(crate) async fn opens_its_sandbox_alone(world: &World) -> anyhow::Result<String> {
    opens(&world.a, &world.b, &[("the server", &world.nobody)]).await
}

/// API-08/token/platform: by control, and on the node itself.
pub(crate) async fn opens_its_sandbox_on_its_node(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start_warm().await?;
    let (a, _) = platform.key("a", &super::authorization::EVERYTHING, None).await?;
    let (b, _) = platform.key("b", &super::authorization::EVERYTHING, None).await?;
    let (a, b) = (platform.client(Some(&a)), platform.client(Some(&b)));
    let node = Client { address: platform.public, key: None };
    let places = [("control", &platform.client(None)), (NODE, &node)];
    let seen = Box::pin(opens(&a, &b, &places)).await;
    platform.stop().await?;
    seen
}

async fn opens(a: &Client, b: &Client, places: &[(&str, &Client)]) -> anyhow::Result<String> {
    // One that the token is of, one of the same tenant, one of another.
    let (own, next, other) = (a.belongings().await?, a.belongings().await?, b.belongings().await?);
    let token = token(a, &own).await?;
    let (mut opened, mut refused) = (0, 0);
    for (place, nobody) in places {
        for (operation, sample) in routes::own() {
            if !sample.keyed {
                continue;
            }
            let is_inside = operation.route().is_inside();
            let mut all = vec![(&next, token.as_str(), None), (&other, &token, None)];
            if is_inside {
                all.extend(lookalikes(place, &own, &token));
            } else {
                all.push((&own, &token, None));
            }
            for (of, token, key) in all {
                let headers: Vec<_> = key.into_iter().chain([(TOKEN, token)]).collect();
                let answer = ask(nobody, &sample, of, &headers).await?;
                let what = format!("{} at {place}, {headers:?}", sample.name);
                ensure!(answer.status == 401, "{what}: {} {}", answer.status, answer.text());
                ensure!(answer.code()? == "unauthenticated", "{what}: {}", answer.text());
                refused += 1;
            }
            if is_inside {
                lets_in(a, nobody, &sample).await.with_context(|| (*place).to_owned())?;
                opened += 1;
            }
        }
    }
    for (owner, of) in [(a, &own), (a, &next), (b, &other)] {
        let secret = format!("/v1/sandboxes/{}/files/content?path=/tmp/secret", of.sandbox);
        ensure!(owner.get(&secret).await?.expect(200)?.text() == "the owner's");
    }
    // A copy has one of its own. What runs cannot be copied.
    a.send("DELETE", &format!("/v1/sandboxes/{}/calls/{}", next.sandbox, next.call), "").await?;
    let path = format!("/v1/sandboxes/{}/fork", next.sandbox);
    let forked = a.json("POST", &path, &json!({})).await?.expect(201)?.value()?;
    let copied = forked["items"][0]["sandbox"]["access_token"].as_str();
    let copied = copied.with_context(|| format!("a copy without a token: {forked}"))?;
    ensure!(copied != self::token(a, &next).await?, "a copy with its original's token");
    ensure!(opened > 15 * places.len(), "only {opened} requests were let in");
    Ok(format!("{opened} requests inside, {refused} refused"))
}

type Shown<'a> = (&'a Belongings, &'a str, Option<(&'static str, &'static str)>);

/// What is almost the token; and the token beside a key that is none.
fn lookalikes<'a>(place: &str, own: &'a Belongings, token: &'a str) -> Vec<Shown<'a>> {
    let almost = [&token[..token.len() - 1], "", &own.sandbox, "e2b_"];
    let mut all: Vec<_> = almost.into_iter().map(|almost| (own, almost, None)).collect();
    // Whoever shows a key is who the key says, whatever else he shows.
    all.push((own, token, Some(("authorization", "Bearer e2b_00"))));
    // It would keep out whoever works on a run.
    all.push((own, token, Some(("run-generation", "7"))));
    // Nodes know no keys, and throw them away.
    if place != NODE {
        all.push((own, token, Some(("x-api-key", "e2b_00"))));
    }
    all
}

/// The control: with its token what is inside is there, until the sandbox ends.
async fn lets_in(owner: &Client, nobody: &Client, sample: &Sample) -> anyhow::Result<()> {
    let fresh = owner.belongings().await?;
    let token = token(owner, &fresh).await?;
    let answer = ask(nobody, sample, &fresh, &[(TOKEN, &token)]).await?;
    ensure!(answer.is_success(), "{}: {}", sample.name, answer.text());
    owner.clear(&fresh).await?;
    let answer = ask(nobody, sample, &fresh, &[(TOKEN, &token)]).await?;
    ensure!(answer.status == 401, "{} after its end: {}", sample.name, answer.status);
    Ok(())
}

async fn token(owner: &Client, of: &Belongings) -> anyhow::Result<String> {
    let shown = owner.get(&format!("/v1/sandboxes/{}", of.sandbox)).await?.expect(200)?.value()?;
    Ok(shown["access_token"].as_str().context("no token")?.to_owned())
}

async fn ask(
    client: &Client,
    sample: &Sample,
    of: &Belongings,
    headers: &[(&str, &str)],
) -> anyhow::Result<Answer> {
    client.send_with(&sample.method, &sample.at(of), headers, sample.body.clone()).await
}

/// Answers with the headers that came.
const ECHO: &str = r#"
import http.server
class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = str(self.headers).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
http.server.HTTPServer(("127.0.0.1", 8080), Echo).serve_forever()
"#;

/// API-08/inside: a server in a sandbox never sees a key of the platform's, however
/// it is reached.
pub(crate) async fn keys_stay_outside(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let (key, _) = platform.key("a", &super::authorization::EVERYTHING, None).await?;
    let seen = Box::pin(echoed(&platform, &key)).await;
    platform.stop().await?;
    seen
}

async fn echoed(platform: &Platform, key: &str) -> anyhow::Result<String> {
    let owner = platform.client(Some(key));
    let id = owner.sandbox(&json!({})).await?;
    let call = json!({ "argv": ["python3", "-c", ECHO], "background": true });
    owner.json("POST", &format!("/v1/sandboxes/{id}/calls"), &call).await?.expect(201)?;
    let to = [("e2b-sandbox-id", id.as_str()), ("e2b-sandbox-port", "8080")];
    let node = Client { address: platform.public, key: None };
    let mut asked = 0;
    for (place, nobody) in [("control", &platform.client(None)), (NODE, &node)] {
        let proofs = [format!("Bearer {key}"), format!("bearer  {key}"), key.to_owned()];
        for proof in &proofs {
            let headers = [to[0], to[1], ("authorization", proof.as_str())];
            let echo = until_up(nobody, &headers).await?;
            ensure!(!echo.contains(key), "{place} passes it on: {echo}");
            asked += 1;
        }
        // The control: what is nobody's key is for the server inside.
        let headers = [to[0], to[1], ("authorization", "Bearer of-the-application")];
        let echo = until_up(nobody, &headers).await?;
        ensure!(echo.contains("of-the-application"), "{place} keeps it: {echo}");
    }
    Ok(format!("{asked} requests with a key, by control and by the node; none arrived with it"))
}

/// What the server inside says, once it listens.
async fn until_up(client: &Client, headers: &[(&str, &str)]) -> anyhow::Result<String> {
    let begin = std::time::Instant::now();
    while begin.elapsed() < HANG_LIMIT {
        let answer = client.send_with("GET", "/", headers, "").await?;
        if answer.is_success() {
            return Ok(answer.text());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    Err(Undecided("the server inside does not answer".to_owned()).into())
}
