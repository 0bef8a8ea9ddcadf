//! Every route for everybody: what control lets through, and what a node believes.

mod page;
mod table;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_store::Scope;
use belljar_testkit::ensure_in_time;
use serde_json::{Value, json};

use self::table::{ALL, Cell, LACKING, Need, ROUTES, Who, expected};
use crate::client::{Answer, Client, HANG_LIMIT, Next};
use crate::platform::Platform;
use crate::routes::{self, Sample};
use crate::world::{Belongings, World};

pub(crate) use page::BLESS;

pub(crate) const EVERYTHING: [Scope; 2] = [Scope::Sandboxes, Scope::Templates];

/// API-08/platform: every route × every kind of key.
pub(crate) async fn matrix(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start_warm().await?;
    let seen = Box::pin(ask_all(&platform)).await;
    platform.stop().await?;
    seen
}

/// API-01/platform: what is not yours looks exactly like what does not exist, on
/// whichever node.
pub(crate) async fn not_yours_is_no_such(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start_warm().await?;
    let (a, _) = platform.key("a", &EVERYTHING, None).await?;
    let (b, _) = platform.key("b", &EVERYTHING, None).await?;
    let (a, b) = (platform.client(Some(&a)), platform.client(Some(&b)));
    let seen = Box::pin(super::strangers::not_yours(&a, &b)).await;
    platform.stop().await?;
    seen
}

async fn ask_all(platform: &Platform) -> anyhow::Result<String> {
    let (owner, _) = platform.key("a", &EVERYTHING, None).await?;
    let owner = platform.client(Some(&owner));
    let mut clients = Vec::new();
    for (_, who) in ALL {
        clients.push((who, client(platform, who).await?));
    }
    let theirs = owner.belongings().await?;
    let tokens = tokens(&owner, &theirs).await?;
    let (mut cells, mut rows) = (0, Vec::new());
    for sample in samples()?.into_iter().chain(routes::pages()) {
        let need = need(&sample)?;
        let mut row = Vec::new();
        for (who, client) in &clients {
            let cell = expected(*who, need, sample.names_something());
            let answer = match cell {
                Cell::No(_) => ask(client, &sample, &theirs).await?,
                Cell::Yes => ask_fresh(client, &owner, &sample, &theirs).await?,
            };
            check(*who, cell, &sample, &answer).with_context(|| format!("{who:?}"))?;
            let text = answer.text();
            let looks = matches!(who, Who::Has(Scope::Read | Scope::Templates));
            let token = tokens.iter().find(|token| looks && text.contains(*token));
            ensure!(token.is_none(), "{}: a token for {who:?}: {text}", sample.name);
            let names = [&theirs.sandbox, &theirs.volume, &theirs.template, &theirs.secret];
            let leaks = *who == Who::Other && cell == Cell::Yes;
            ensure!(!leaks || !names.iter().any(|name| text.contains(*name)), "{text}");
            row.push(cell);
            cells += 1;
        }
        rows.push((sample, row));
    }
    ensure!(rows.len() == ROUTES.len(), "the table names routes that there are not");
    let path = format!("/v1/sandboxes/{}", theirs.sandbox);
    let still = owner.get(&path).await?.expect(200)?.value()?;
    ensure!(still["state"] == "running", "somebody who may not has changed it: {still}");
    let secret = owner.get(&format!("{path}/files/content?path=/tmp/secret")).await?;
    ensure!(secret.expect(200)?.text() == "the owner's");
    page::check(&rows)?;
    Ok(format!("{} routes, {cells} cells, as in docs/authorization.md", rows.len()))
}

/// For how long control may believe what it once read of a key, and a little more.
const BELIEVED: Duration = Duration::from_millis(1100);

async fn client(platform: &Platform, who: Who) -> anyhow::Result<Client> {
    let key = match who {
        Who::NoKey => None,
        Who::Wrong => Some(format!("e2b_{}", "0".repeat(40))),
        Who::Expired => {
            let lives = Duration::from_secs(1);
            let (key, _) = platform.key("a", &EVERYTHING, Some(lives)).await?;
            // It opened something, once.
            let first = platform.client(Some(&key)).get("/v1/sandboxes").await?;
            ensure_in_time!(first.status == 200, "it had expired before it was used");
            tokio::time::sleep(lives + BELIEVED).await;
            Some(key)
        }
        Who::Revoked => {
            let (key, id) = platform.key("a", &EVERYTHING, None).await?;
            platform.client(Some(&key)).get("/v1/sandboxes").await?.expect(200)?;
            platform.revoke("a", &id).await?;
            tokio::time::sleep(BELIEVED).await;
            Some(key)
        }
        Who::Has(scope) => Some(platform.key("a", &[scope], None).await?.0),
        Who::Other => Some(platform.key("b", &EVERYTHING, None).await?.0),
    };
    Ok(platform.client(key.as_deref()))
}

pub(super) fn samples() -> anyhow::Result<Vec<Sample>> {
    let own = routes::own().into_iter().map(|(_, sample)| sample);
    // A link to upload with is a key of its own.
    let e2b = routes::e2b()?.into_iter().filter(|sample| !sample.path.contains("{token}"));
    Ok(own.chain(e2b).collect())
}

fn pattern(sample: &Sample) -> &str {
    sample.path.split('?').next().unwrap_or(&sample.path)
}

fn need(sample: &Sample) -> anyhow::Result<Need> {
    let row = ROUTES.iter().find(|row| row.0 == sample.method && row.1 == pattern(sample));
    let row = row.with_context(|| format!("the table does not say who may do {}", sample.name))?;
    ensure!((row.2 == Need::Nothing) != sample.keyed, "{}: with or without a key?", sample.name);
    Ok(row.2)
}

async fn ask(client: &Client, sample: &Sample, of: &Belongings) -> anyhow::Result<Answer> {
    client.send(&sample.method, &sample.at(of), sample.body.clone()).await
}

/// Whoever may change something has something of its own to change.
async fn ask_fresh(
    client: &Client,
    owner: &Client,
    sample: &Sample,
    theirs: &Belongings,
) -> anyhow::Result<Answer> {
    if !sample.names_something() {
        return ask(client, sample, theirs).await;
    }
    // One that was never built is nothing to show.
    let built = |of: &Belongings| match sample.path.as_str() {
        "/v1/templates/{template}" => Belongings { template: "base".to_owned(), ..of.clone() },
        _ => of.clone(),
    };
    if sample.method == "GET" {
        return ask(client, sample, &built(theirs)).await;
    }
    let fresh = owner.belongings().await?;
    let answer = ask(client, sample, &fresh).await?;
    owner.clear(&fresh).await?;
    Ok(answer)
}

fn check(who: Who, cell: Cell, sample: &Sample, answer: &Answer) -> anyhow::Result<()> {
    let (name, status, text) = (&sample.name, answer.status, answer.text());
    match cell {
        Cell::No(wanted) => {
            ensure!(status == wanted, "{name}: {status} instead of {wanted}: {text}");
            if sample.path.starts_with("/v1/") && wanted != 404 {
                let code = if wanted == 401 { "unauthenticated" } else { "scope_missing" };
                ensure!(answer.code()? == code, "{name}: {text}");
            }
        }
        Cell::Yes => {
            let lacks = LACKING.iter().any(|(method, path, lacks)| {
                *method == sample.method && *path == pattern(sample) && *lacks == status
            });
            // What another key of the same tenant has made before is there already.
            let again = status == 409 && !sample.names_something();
            let fits = answer.is_success() || lacks || again;
            ensure!(fits, "{name} for {who:?}: {status}: {text}");
        }
    }
    Ok(())
}

/// Everything that opens something, as its owner sees it.
async fn tokens(owner: &Client, of: &Belongings) -> anyhow::Result<Vec<String>> {
    let mut tokens = Vec::new();
    for path in [format!("/sandboxes/{}", of.sandbox), format!("/volumes/{}", of.volume)] {
        collect(&owner.get(&path).await?.expect(200)?.value()?, &mut tokens);
    }
    let before = tokens.len();
    let private = json!({ "private_traffic": true });
    let made = owner.json("POST", "/v1/sandboxes", &private).await?.expect(201)?.value()?;
    collect(&made, &mut tokens);
    ensure!(before >= 2 && tokens.len() > before, "tokens are not where they were: {tokens:?}");
    Ok(tokens)
}

fn collect(value: &Value, into: &mut Vec<String>) {
    let Value::Object(fields) = value else { return };
    for (name, value) in fields {
        match value {
            Value::String(text) if name.to_lowercase().contains("token") => into.push(text.clone()),
            _ => collect(value, into),
        }
    }
}

/// API-13/platform: a stream ends with the key that opened it.
pub(crate) async fn streams_end_with_their_key(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(cut(&platform)).await;
    platform.stop().await?;
    seen
}

async fn cut(platform: &Platform) -> anyhow::Result<String> {
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let owner = platform.client(Some(&key));
    let sandbox = owner.sandbox(&json!({})).await?;
    let (kept, _) = platform.key("a", &[Scope::Read], None).await?;
    let (kept, events) = (platform.client(Some(&kept)), "/v1/events");
    let mut other = kept.open("GET", events, &[], "").await?;
    let mut longest = Duration::ZERO;
    // Each time at another moment of the second that a key is believed for.
    for pause in [0, 300, 600, 900] {
        let (gone, id) = platform.key("a", &EVERYTHING, None).await?;
        let gone = platform.client(Some(&gone));
        let call = json!({ "argv": ["sleep", "600"], "timeout_ms": 600_000 }).to_string();
        let calls = format!("/v1/sandboxes/{sandbox}/calls");
        let stream = [("accept", "text/event-stream")];
        let mut streams = [
            gone.open("GET", events, &[], "").await?,
            gone.open("POST", &calls, &stream, call).await?,
        ];
        tokio::time::sleep(Duration::from_millis(pause)).await;
        gone.get("/v1/sandboxes").await?.expect(200)?;
        platform.revoke("a", &id).await?;
        let revoked = tokio::time::Instant::now();
        for stream in &mut streams {
            ensure!(stream.status == 200, "{}", stream.status);
            while stream.next(HANG_LIMIT).await != Next::Closed {
                ensure_in_time!(revoked.elapsed() < HANG_LIMIT, "never cut off");
            }
        }
        longest = longest.max(revoked.elapsed());
        gone.get("/v1/sandboxes").await?.expect(401)?;
    }
    // The control: a stream of a key that lives has gone on, and still tells.
    let made = owner.sandbox(&json!({})).await?;
    other.until(&made).await?;
    Ok(format!("cut off within {:.1} s at most; another key's went on", longest.as_secs_f64()))
}
