//! What belongs to another, and what needs a key.

use anyhow::ensure;
use belljar_api::Operation;
use serde_json::json;

use crate::client::{Answer, Client};
use crate::routes::{self, Sample};
use crate::world::{Belongings, World};

/// Something of the right form that nobody has.
fn nothing() -> Belongings {
    Belongings {
        sandbox: "abcdefghijklmnopqrstuvwxyz"[..26].to_owned(),
        call: "4194303".to_owned(),
        context: "0123456789abcdef0123456789abcdef".to_owned(),
        checkpoint: "snap0123456789abcdef0123".to_owned(),
        template: "abcdefghij0123456789".to_owned(),
        build: "00000000-0000-4000-8000-000000000000".to_owned(),
        volume: "vol0123456789abcdef0123".to_owned(),
        secret: "of-nobody-at-all".to_owned(),
        run: "abcdefghijklmnopqrstuvwxyz"[..26].to_owned(),
        data: "0".repeat(64),
        webhook: format!("wh_{}", "0".repeat(32)),
        workflow: format!("wf_{}", "0".repeat(32)),
    }
}

/// API-01: what is not yours looks exactly like what does not exist.
pub(crate) async fn not_yours_is_no_such(world: &World) -> anyhow::Result<String> {
    not_yours(&world.a, &world.b).await
}

/// What is `a`'s, asked for by `b`.
pub(super) async fn not_yours(a: &Client, b: &Client) -> anyhow::Result<String> {
    let (theirs, none) = (a.belongings().await?, nothing());
    let mut tried = 0;
    let own = routes::own().into_iter().map(|(_, sample)| sample);
    for sample in own.chain(routes::e2b()?) {
        if !sample.names_something() || !sample.keyed {
            continue;
        }
        let ask = async |of: &Belongings| -> anyhow::Result<String> {
            let answer = b.send(&sample.method, &sample.at(of), sample.body.clone()).await?;
            let (status, text) = (answer.status, answer.text());
            ensure!(status == 404, "{}: {status} {text}", sample.name);
            Ok(format!("{} {}", answer.status, neutral(&answer, of)))
        };
        let (not_yours, no_such) = (ask(&theirs).await?, ask(&none).await?);
        ensure!(not_yours == no_such, "{}: {not_yours} and {no_such}", sample.name);
        tried += 1;
    }
    ensure!(tried > 45, "only {tried} routes were tried");
    // Nothing of it was touched.
    let path = format!("/v1/sandboxes/{}", theirs.sandbox);
    let still = a.get(&path).await?.expect(200)?.value()?;
    ensure!(still["state"] == "running", "{still}");
    let secret = a.get(&format!("{path}/files/content?path=/tmp/secret")).await?;
    ensure!(secret.expect(200)?.text() == "the owner's");
    let worked = owner_may(a).await?;
    Ok(format!("{tried} routes, the same answers; {worked} work for the owner"))
}

/// The answer without what must differ: the id that was asked for, the request's.
fn neutral(answer: &Answer, of: &Belongings) -> String {
    let mut text = answer.text();
    let Belongings {
        sandbox,
        context,
        checkpoint,
        template,
        build,
        volume,
        secret,
        call,
        run,
        data,
        webhook,
        workflow,
    } = of;
    let ids = [sandbox, context, checkpoint, template, build, volume, secret, run, data, webhook];
    for id in ids.into_iter().chain([workflow]) {
        text = text.replace(id.as_str(), "ID");
    }
    text = text.replace(&format!("pid {call} "), "pid ID ");
    match text.split_once("\"request_id\":\"") {
        Some((before, after)) => {
            format!("{before}{}", after.split_once('"').map_or("", |(_, rest)| rest))
        }
        None => text,
    }
}

/// The control: the same requests do work for whom it belongs to.
async fn owner_may(owner: &Client) -> anyhow::Result<usize> {
    let mut worked = 0;
    for (operation, sample) in routes::own() {
        if !sample.names_something() {
            continue;
        }
        let own = owner.belongings().await?;
        // One that was never built is nothing to show.
        let built = Belongings { template: "base".to_owned(), ..own.clone() };
        let answer = owner.send(&sample.method, &sample.at(&built), sample.body.clone()).await?;
        // A process of another program cannot be copied along: a conflict is the
        // answer to somebody who may ask.
        let copies = matches!(operation, Operation::ForkSandbox | Operation::CreateCheckpoint);
        // Nobody works on the run, so it has made nothing; but that is said of a run that
        // is there.
        let lacks = match operation {
            Operation::ReadRunFile | Operation::ReadWorkflowFile => Some("file_not_found"),
            Operation::GetTurn => Some("turn_not_found"),
            _ => None,
        };
        let made_nothing = answer.status == 404
            && lacks.is_some_and(|code| answer.code().is_ok_and(|it| it == code));
        // These runs have no reader of files; that, too, is said of a file that is there.
        let no_reader = operation == Operation::DescribeData
            && answer.status == 422
            && answer.code()? == "data_not_described";
        // It has asked nothing and has not ended; that, too, is said of a run that is there.
        let not_yet = [
            (Operation::AnswerRun, 409, "no_question"),
            (Operation::DecideApproval, 409, "approval_over"),
            (Operation::RetryRun, 409, "run_unfinished"),
            (Operation::GetRunReport, 409, "run_unfinished"),
            (Operation::ReadRunPrompt, 404, "turn_not_found"),
            (Operation::ReadRunOutput, 404, "call_not_found"),
            // It records on no cassette, and the bytes are none.
            (Operation::ReadCassette, 404, "cassette_not_found"),
            (Operation::WriteCassette, 422, "cassette_refused"),
        ];
        let row = not_yet.iter().find(|row| row.0 == operation);
        let is_too_early = match row {
            Some((_, status, code)) => answer.status == *status && answer.code()? == *code,
            None => false,
        };
        let fits = is_too_early
            || answer.is_success()
            || (copies && answer.status == 409)
            || made_nothing
            || no_reader;
        ensure!(fits, "{}: {} {}", sample.name, answer.status, answer.text());
        worked += 1;
        owner.clear(&own).await?;
    }
    // On the other surface a few are about what these belongings lack: an alias,
    // a paused sandbox, a tag.
    let (mut may, mut all) = (0, 0);
    for sample in routes::e2b()?.into_iter().filter(Sample::names_something) {
        let own = owner.belongings().await?;
        let answer = owner.send(&sample.method, &sample.at(&own), sample.body.clone()).await?;
        ensure!(answer.status != 401, "{}: {}", sample.name, answer.text());
        may += usize::from(answer.is_success());
        all += 1;
        owner.clear(&own).await?;
    }
    ensure!(all > 20 && may * 5 > all * 4, "only {may} of {all} work for the owner");
    Ok(worked + may)
}

/// API-08: without a key nothing is done and no body is read.
pub(crate) async fn no_key_no_answer(world: &World) -> anyhow::Result<String> {
    let theirs = world.a.belongings().await?;
    let mut tried = 0;
    let own = routes::own().into_iter().map(|(_, sample)| sample);
    for sample in own.chain(routes::e2b()?) {
        let path = sample.at(&theirs);
        // No JSON: whoever reads it before asking for a key says so.
        let broken = "{\"unfinished";
        for key in [None, Some("e2b_0000000000000000000000000000000000000000"), Some("")] {
            let stranger = Client { key: key.map(str::to_owned), ..world.nobody.clone() };
            let answer = stranger.send(&sample.method, &path, broken).await?;
            if !sample.keyed {
                continue;
            }
            ensure!(answer.status == 401, "{}: {} {}", sample.name, answer.status, answer.text());
            if path.starts_with("/v1/") {
                ensure!(answer.code()? == "unauthenticated", "{}", answer.text());
            }
            tried += 1;
        }
        if sample.keyed && path.starts_with("/v1/") {
            // The control: with a key, the same broken body is what is wrong.
            let answer = world.b.send(&sample.method, &path, broken).await?;
            ensure!(answer.status != 401, "{}: even with a key", sample.name);
        }
    }
    let still = world.a.get(&format!("/v1/sandboxes/{}", theirs.sandbox)).await?;
    ensure!(still.expect(200)?.value()?["state"] == "running");
    ensure!(tried > 150, "only {tried} requests");
    // What there is not, and what is done in another way, says so in our words.
    let none = world.nobody.get("/v1/no/such/path").await?.expect(404)?;
    ensure!(none.code()? == "route_not_found");
    let other = world.a.send("PUT", "/v1/sandboxes", "").await?.expect(405)?;
    ensure!(other.code()? == "method_not_allowed");
    Ok(format!("{tried} requests, all 401"))
}

/// API-14: a checkpoint is its owner's; instances of one template are apart.
pub(crate) async fn checkpoints_are_ones_own(world: &World) -> anyhow::Result<String> {
    let (a, b) = (&world.a, &world.b);
    let original = a.sandbox(&json!({})).await?;
    a.run(&original, "echo secret > /tmp/secret").await?;
    let kept = json!({ "name": "mine" });
    let path = format!("/v1/sandboxes/{original}/checkpoints");
    let kept = a.json("POST", &path, &kept).await?.expect(201)?.value()?;
    let id = kept["id"].as_str().unwrap_or_default();
    for name in [id, "mine"] {
        let create = b.json("POST", "/v1/sandboxes", &json!({ "template": name })).await?;
        ensure!(create.status == 404, "{name}: {} {}", create.status, create.text());
        let fork = b.json("POST", &format!("/v1/checkpoints/{name}/fork"), &json!({})).await?;
        ensure!(fork.status == 404, "{name}: {} {}", fork.status, fork.text());
        let e2b = b.json("POST", "/sandboxes", &json!({ "templateID": name })).await?;
        ensure!(!e2b.is_success(), "{name}: {}", e2b.text());
        b.send("DELETE", &format!("/v1/checkpoints/{name}"), "").await?.expect(404)?;
    }
    let listed = b.get("/v1/checkpoints").await?.expect(200)?.value()?;
    ensure!(listed["items"] == json!([]), "{listed}");
    // The control: its owner may, and finds what was kept.
    let copy = a.json("POST", &format!("/v1/checkpoints/{id}/fork"), &json!({})).await?;
    let copy = copy.expect(201)?.value()?;
    let copy = copy["id"].as_str().unwrap_or_default();
    let found = a.run(copy, "cat /tmp/secret").await?;
    ensure!(found["stdout"]["data"] == "secret\n", "{found}");
    // Two tenants on one template: one that stands still leaves the other alone.
    let other = b.sandbox(&json!({})).await?;
    b.run(&other, "echo other > /tmp/mine").await?;
    for change in ["pause", "resume"] {
        a.json("POST", &format!("/v1/sandboxes/{original}/{change}"), &json!({}))
            .await?
            .expect(200)?;
        let still = b.run(&other, "cat /tmp/mine /tmp/secret").await?;
        ensure!(still["stdout"]["data"] == "other\n", "after {change}: {still}");
    }
    a.send("DELETE", &format!("/v1/sandboxes/{original}"), "").await?.expect(204)?;
    let still = b.run(&other, "cat /tmp/mine").await?;
    ensure!(still["stdout"]["data"] == "other\n", "after the end of the first: {still}");
    Ok("404 for the stranger by id and by name; its own sandbox was left alone".to_owned())
}
