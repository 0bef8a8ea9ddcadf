//! Signed links: one file, one operation, until a time.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::client::Client;
use crate::world::World;

/// Makes a sandbox, and returns its id and the token that signs its links.
pub(super) async fn sandbox(owner: &Client) -> anyhow::Result<(String, String)> {
    let made = owner.json("POST", "/v1/sandboxes", &json!({})).await?.expect(201)?.value()?;
    let text = |name: &str| made[name].as_str().map(str::to_owned);
    Ok((text("id").context("no id")?, text("access_token").context("no token")?))
}

/// Signs a link as E2B's SDKs do.
pub(super) fn signed(path: &str, operation: &str, token: &str, expires: Option<u64>) -> String {
    let expires_text = expires.map(|at| format!(":{at}")).unwrap_or_default();
    let hash = Sha256::digest(format!("{path}:{operation}::{token}{expires_text}"));
    let signature = base64(&hash).replace('+', "%2B").replace('/', "%2F");
    let until = expires.map(|at| format!("&signature_expiration={at}")).unwrap_or_default();
    format!("/files?path={path}&signature=v1_{signature}{until}")
}

/// Encodes without padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<u8> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let letter = |six: &[u8]| {
        let value = six.iter().fold(0, |value, bit| value << 1 | bit) << (6 - six.len());
        char::from(LETTERS[usize::from(value)])
    };
    bits.chunks(6).map(letter).collect()
}

/// API-21: a signed link opens its file, for its operation, until it expires.
pub(crate) async fn open_one_thing(world: &World) -> anyhow::Result<String> {
    let (id, token) = sandbox(&world.a).await?;
    let (other, others) = sandbox(&world.b).await?;
    for (who, id) in [(&world.a, &id), (&world.b, &other)] {
        for name in ["secret", "more"] {
            let path = format!("/v1/sandboxes/{id}/files/content?path=/tmp/{name}");
            who.send("PUT", &path, format!("of {id}")).await?.expect(200)?;
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let read = signed("/tmp/secret", "read", &token, Some(now + 600));
    // The control: the link opens its file without a key, also twice.
    for _ in 0..2 {
        let answer = world.nobody.get(&read).await?.expect(200)?;
        ensure!(answer.text() == format!("of {id}"), "{}", answer.text());
    }
    let later = read.replace(&format!("={}", now + 600), &format!("={}", now + 6000));
    let never = read.split("&signature_expiration").next().unwrap_or_default().to_owned();
    let refused = [
        ("another file", "GET", read.replace("/tmp/secret", "/tmp/more")),
        ("a folder above", "GET", read.replace("/tmp/secret", "/tmp")),
        ("a way around", "GET", read.replace("/tmp/secret", "/tmp/secret/../more")),
        ("a second path", "GET", format!("{read}&path=/tmp/more")),
        ("another user", "GET", format!("{read}&username=root")),
        ("to write", "POST", read.clone()),
        ("for longer", "GET", later),
        ("for ever", "GET", never),
        ("over", "GET", signed("/tmp/secret", "read", &token, Some(now - 5))),
        ("another's token", "GET", signed("/tmp/secret", "read", &format!("{others}x"), None)),
        ("no signature", "GET", "/files?path=/tmp/secret&signature=".to_owned()),
        ("half of one", "GET", read.replace("&signature=v1_", "&signature=v1_A")),
    ];
    for (what, method, path) in &refused {
        let answer = world.nobody.send(method, path, "").await?;
        ensure!((400..500).contains(&answer.status), "{what}: {} {}", answer.status, answer.text());
        ensure!(!answer.text().contains(&format!("of {id}")), "{what}: {}", answer.text());
    }
    let kept = world.a.get(&format!("/v1/sandboxes/{id}/files/content?path=/tmp/secret")).await?;
    ensure!(kept.expect(200)?.text() == format!("of {id}"), "the file was changed");
    // Another tenant's link opens that tenant's sandbox only.
    let theirs =
        world.nobody.get(&signed("/tmp/secret", "read", &others, None)).await?.expect(200)?;
    ensure!(theirs.text() == format!("of {other}"), "{}", theirs.text());
    // The link ends with its sandbox.
    world.a.send("DELETE", &format!("/v1/sandboxes/{id}"), "").await?;
    let dead = world.nobody.get(&read).await?;
    ensure!((400..500).contains(&dead.status), "{} {}", dead.status, dead.text());
    Ok(format!("{} ways to stretch a link, all refused", refused.len() + 1))
}
