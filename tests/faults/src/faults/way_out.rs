//! The way out of a sandbox: its gateway, its policy, and who is on the other side.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_testkit::free_port;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::case::{Case, until};
use crate::client::{Client, reaching};
use crate::evidence::{Audit, Outcome};
use crate::rig::host;
use crate::rig::oracle::Manner;
use crate::rig::server::Options;

/// F-44: what was asked for is done, and the answer is lost.
pub(crate) async fn reply_lost(case: &mut Case) -> anyhow::Result<String> {
    let (client, oracle) = case.serve_with_oracle(Options::default()).await?;
    let id = client.make_with(&reaching(oracle)).await?;
    ensure!(client.effect(&id, oracle).await == Outcome::Done, "effects do not arrive");
    case.oracle.as_ref().context("no oracle")?.behave(Manner::LosesReplies);
    for _ in 0..10 {
        let outcome = client.effect(&id, oracle).await;
        ensure!(outcome != Outcome::Done, "it was told that all is well");
    }
    let seen = case.oracle.as_ref().context("no oracle")?.seen().len();
    ensure!(seen == 11, "{seen} of 11 operations arrived");
    written(case, &client, &id).await?;
    Ok("10 replies lost: each arrived once, and none was sent again".to_owned())
}

/// Rows of what a sandbox reached, beside what the oracle saw.
async fn written(case: &mut Case, client: &Client, id: &str) -> anyhow::Result<()> {
    let arrived = case.oracle.as_ref().map_or(0, |oracle| oracle.seen().values().sum::<u32>());
    let mut count = 0;
    let path = format!("/v1/sandboxes/{id}/connections?limit=1000");
    // A row is written when its connection ends.
    let _ = until("every row is written", async || {
        let rows = client.plain("GET", &path, None).await.map(|(_, value)| value);
        count = rows.map_or(0, |rows| rows["items"].as_array().map_or(0, Vec::len));
        count as u64 >= u64::from(arrived)
    })
    .await;
    case.audits.push(Audit {
        sandbox: id.to_owned(),
        arrived: arrived.into(),
        written: count as u64,
        has_gap_marker: false,
    });
    Ok(())
}

/// F-45: who answers for the other side has no certificate that anybody trusts, or
/// cannot be found.
pub(crate) async fn wrong_certificate(case: &mut Case) -> anyhow::Result<String> {
    let at = SocketAddr::from(([127, 0, 0, 2], free_port()?));
    let (cert, key) = (case.rig.dir.join("cert.pem"), case.rig.dir.join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "1", "-subj", "/CN=127.0.0.2", "-out"])
        .arg(&cert)
        .arg("-keyout")
        .arg(&key)
        .args(["-addext", "subjectAltName=IP:127.0.0.2"])
        .output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let words = ["openssl", "s_server", "-quiet", "-www", "-accept", &at.to_string(), "-cert"];
    let mut words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
    words.extend([cert.display().to_string(), "-key".to_owned(), key.display().to_string()]);
    let record = &case.rig.record;
    let log = case.rig.dir.join("tls.log");
    let mut server = crate::rig::program::Program::new(record, log, None, words);
    server.start(&[])?;
    let client = case.serve(Options { opening: Some(at), ..Options::default() }).await?;
    // Rules with paths need the content: TLS ends at the gateway, which must judge.
    let rule = json!({ "host": "127.0.0.2", "ports": [at.port()], "paths": ["/"] });
    let nowhere = json!({ "host": "no-such-host.invalid", "ports": [80] });
    let wish = json!({
        "template": "base", "timeout_seconds": 300,
        "network": { "reach": { "allow": [rule, nowhere] } },
    });
    let id = client.make_with(&wish).await?;
    let python = |url: &str| {
        format!(
            "python3 -c 'import urllib.request,sys\ntry: r=urllib.request.urlopen(\"{url}\",\
             timeout=10); print(\"open\", r.status)\nexcept Exception as e: print(\"refused\", e)'"
        )
    };
    let wrong = client.run(&id, &python(&format!("https://{at}/"))).await?;
    case.probe("a server with a certificate of its own making", wrong.starts_with("open"));
    let lost = client.run(&id, &python("http://no-such-host.invalid/")).await?;
    case.probe("a host that does not exist", lost.starts_with("open"));
    drop(server);
    Ok(format!("{}; {}", wrong.trim(), lost.trim()))
}

/// F-46: the gateway is killed with requests under way.
pub(crate) async fn gateway_killed(case: &mut Case) -> anyhow::Result<String> {
    let (client, oracle) = case.serve_with_oracle(Options::default()).await?;
    let id = client.make_with(&reaching(oracle)).await?;
    ensure!(client.effect(&id, oracle).await == Outcome::Done, "effects do not arrive");
    let manner = Manner::After(Duration::from_secs(3));
    case.oracle.as_ref().context("no oracle")?.behave(manner);
    let mut under_way = Vec::new();
    for _ in 0..5 {
        let (client, id) = (client.clone(), id.clone());
        under_way.push(tokio::spawn(async move { client.effect(&id, oracle).await }));
    }
    until("five effects arrive", async || {
        case.oracle.as_ref().is_some_and(|oracle| oracle.seen().len() >= 6)
    })
    .await?;
    let gateway = case.server()?.part("belljar-gateway").context("no gateway runs")?;
    host::signal(gateway, Signal::KILL);
    let direct = format!("exec 3<>/dev/tcp/{}/{} && echo open", oracle.ip(), oracle.port());
    let body = json!({ "argv": ["bash", "-c", direct] });
    let (_, said) = client.post(&format!("/v1/sandboxes/{id}/calls"), &body).await;
    case.probe("a way around the gateway", said["stdout"]["data"] == "open\n");
    for one in under_way {
        let outcome = one.await?;
        ensure!(outcome != Outcome::Done, "a request outlived its gateway");
    }
    case.oracle.as_ref().context("no oracle")?.behave(Manner::Well);
    let again = until("the way out is there again", async || {
        client.effect(&id, oracle).await == Outcome::Done
    })
    .await?;
    case.heal(&client).await?;
    Ok(format!("5 requests were cut, the way out was there again after {} ms", again.as_millis()))
}

/// F-48: a policy that nobody can read is pushed, and one that is too wide.
pub(crate) async fn bad_policy(case: &mut Case) -> anyhow::Result<String> {
    let (client, oracle) = case
        .serve_with_oracle(Options {
            more: ["--max-network", "allow"].map(str::to_owned).into(),
            ..Options::default()
        })
        .await?;
    let id = client.make_with(&reaching(oracle)).await?;
    ensure!(client.effect(&id, oracle).await == Outcome::Done, "effects do not arrive");
    let path = format!("/v1/sandboxes/{id}/network");
    let (status, _) = client.plain("PUT", &path, Some(&json!({ "reach": "none" }))).await?;
    ensure!(status == 200, "the policy cannot be narrowed: {status}");
    let closed = client.effect(&id, oracle).await;
    case.probe("what the narrow policy forbids", closed == Outcome::Done);
    let pushed: [Value; 5] = [
        json!({ "reach": { "allow": [{ "host": "0x7f.1" }] } }),
        json!({ "reach": "everything" }),
        json!({ "reach": { "allow": [{ "host": oracle.ip().to_string(), "ports": ["x"] }] } }),
        json!({ "reach": "open" }),
        Value::Null,
    ];
    for policy in pushed {
        let (status, said) = client.plain("PUT", &path, Some(&policy)).await?;
        ensure!((400..500).contains(&status), "{policy} was answered {status}: {said}");
        let outcome = client.effect(&id, oracle).await;
        case.probe(format!("what {policy} would allow"), outcome == Outcome::Done);
    }
    Ok("five policies refused, and the narrow one stayed".to_owned())
}
