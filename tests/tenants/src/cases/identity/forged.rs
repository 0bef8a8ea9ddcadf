//! Control's signature: forged, changed, late, again.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_identity::{Authority, PlatformClock};
use belljar_peer_proto::behalf::{Behalf, HEADER};
use serde_json::json;

use super::{next, sign_with};
use crate::cases::authorization::{EVERYTHING, samples};
use crate::client::Client;
use crate::platform::Platform;
use crate::world::World;

/// API-08/node: a node believes control, and nobody who only sounds like it.
pub(crate) async fn nobody_speaks_for_control(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(forge(&platform)).await;
    platform.stop().await?;
    seen
}

async fn forge(platform: &Platform) -> anyhow::Result<String> {
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let owner = platform.client(Some(&key));
    let (other, _) = platform.key("b", &EVERYTHING, None).await?;
    let theirs = owner.belongings().await?;
    let foreign = Authority::generate(&PlatformClock::default())?;
    // Whoever got hold of control's certificate, but not of what it signs with.
    let inside = platform.as_control()?;
    let public =
        |key: Option<&str>| Client { address: platform.public, key: key.map(str::to_owned) };
    let (mut refused, mut allowed) = (0, 0);
    for sample in samples()?.into_iter().filter(|sample| sample.keyed) {
        let (method, path) = (sample.method.as_str(), sample.at(&theirs));
        let body = sample.body.as_str();
        let now = || platform.behalf(body, Duration::ZERO);
        let signed = |method: &str, path: &str, said: &Behalf| {
            platform.keyring.sign_request(method, path, said)
        };
        let good = || anyhow::Ok(signed(method, &path, &now()?)?);
        let word = good()?;
        let (said, _) = word.split_once('.').context("a word of another form")?;
        let elsewhere = signed(method, "/v1/other", &now()?)?;
        let (_, proof) = elsewhere.split_once('.').context("a word of another form")?;
        let elsewhere_node = Behalf { node: next(platform.identity.number()), ..now()? };
        let forged = [
            ("of another platform", sign_with(foreign.signing_key(), method, &path, &now()?)?),
            ("of the node itself", sign_with(platform.identity.key(), method, &path, &now()?)?),
            ("two minutes old", {
                signed(method, &path, &platform.behalf(body, Duration::from_secs(120))?)?
            }),
            ("for another path", elsewhere.clone()),
            ("for another method", signed("OPTIONS", &path, &now()?)?),
            ("for another node", signed(method, &path, &elsewhere_node)?),
            ("for another body", {
                signed(method, &path, &platform.behalf("another body", Duration::ZERO)?)?
            }),
            ("with another's proof", format!("{said}.{proof}")),
            ("without a proof", format!("{said}.")),
        ];
        for (what, word) in forged {
            let headers = [(HEADER, word.as_str())];
            let answer = inside.send(method, &path, &headers, body.to_owned()).await?;
            ensure!(answer.status == 401, "{what}: {}: {}", sample.name, answer.status);
            refused += 1;
        }
        // Without control's certificate even a good one is worth nothing.
        let word = good()?;
        let headers = [(HEADER, word.as_str())];
        for client in [public(None), public(Some(&key))] {
            for headers in [&headers[..], &[]] {
                let answer = client.send_with(method, &path, headers, body.to_owned()).await?;
                let (name, status) = (&sample.name, answer.status);
                ensure!(status == 401, "{name}: {status} {}", answer.text());
                refused += 1;
            }
        }
        let nobody = platform.client(None);
        let answer = nobody.send_with(method, &path, &headers, body.to_owned()).await?;
        ensure!(answer.status == 401, "by control: {}: {}", sample.name, answer.status);
        if sample.names_something() {
            let stranger = platform.client(Some(&other));
            let answer = stranger.send_with(method, &path, &headers, body.to_owned()).await?;
            ensure!(answer.status == 404, "a stranger: {}: {}", sample.name, answer.status);
        }
        if method == "GET" {
            // The control: the same word, in control's own connection.
            let answer = inside.send(method, &path, &headers, body.to_owned()).await?;
            ensure!(answer.status != 401, "{}: {}", sample.name, answer.text());
            allowed += usize::from(answer.is_success());
        }
    }
    ensure!(allowed > 25, "only {allowed} requests with a good word were answered");
    let path = format!("/v1/sandboxes/{}", theirs.sandbox);
    let still = owner.get(&path).await?.expect(200)?.value()?;
    ensure!(still["state"] == "running", "{still}");
    Ok(format!("{refused} words refused, {allowed} good ones believed"))
}

/// BUS-04: a request that was seen once, sent again, with its own body and with another.
pub(crate) async fn requests_are_accepted_once(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(replay(&platform)).await;
    platform.stop().await?;
    seen
}

async fn replay(platform: &Platform) -> anyhow::Result<String> {
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let sandbox = platform.client(Some(&key)).sandbox(&json!({})).await?;
    let inside = platform.as_control()?;
    let path = format!("/v1/sandboxes/{sandbox}/calls");
    let call = |text: &str| json!({ "script": format!("echo {text} >> /tmp/ran") }).to_string();
    let sign = |said: &Behalf| platform.keyring.sign_request("POST", &path, said);
    let (first, other) = (call("first"), call("other"));
    let word = sign(&platform.behalf(&first, Duration::ZERO)?)?;
    let send = |word: String, body: String| {
        let (inside, path) = (inside.clone(), path.clone());
        async move { inside.send("POST", &path, &[(HEADER, &word)], body).await }
    };
    // The control: it is accepted the first time.
    ensure!(send(word.clone(), first.clone()).await?.is_success(), "not even once");
    for (what, word, body) in [
        ("the same again", word.clone(), first.clone()),
        ("with another body", word, other.clone()),
        ("fresh, with another body", sign(&platform.behalf(&first, Duration::ZERO)?)?, other),
    ] {
        let answer = send(word, body).await?;
        ensure!(answer.status == 401, "{what}: {} {}", answer.status, answer.text());
    }
    // A body that is streamed has no digest; its request counts once all the same.
    let streamed = sign(&Behalf { body: None, ..platform.behalf("", Duration::ZERO)? })?;
    ensure!(send(streamed.clone(), call("second")).await?.is_success(), "not streamed");
    let answer = send(streamed, call("third")).await?;
    ensure!(answer.status == 401, "streamed again: {}", answer.status);
    let ran = platform.client(Some(&key)).run(&sandbox, "cat /tmp/ran").await?;
    ensure!(ran["stdout"]["data"] == "first\nsecond\n", "{ran}");
    Ok("four repetitions refused, two requests ran once each".to_owned())
}
