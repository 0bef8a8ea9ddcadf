//! A server of files that lies about them while one sandbox fetches, and tells
//! the truth when the next one does.

use anyhow::ensure;
use belljar_domain::network::{Decision, Reason};

use super::{
    Cache, EVIL, FILES, INDEX, LARGE, PAGE, believed, expect_honest, install, kept, packages, path,
    planted, promise, reads, right, serve, tenant,
};
use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::say::{Script, get};
use crate::harness::stage::Stage;
use crate::harness::world::World;

/// By how the lie is told.
const LIES: [&str; 11] = [
    "other",
    "fewer",
    "more",
    "broken",
    "unbounded",
    "chunked",
    "packed",
    "part",
    "nothing",
    "moved",
    "large",
];

/// What comes for the file instead.
fn lie(name: &str) -> Vec<u8> {
    let (right, planted) = (right(name), planted(name));
    let half = &right[..right.len() / 2];
    let answer = |first: &str, body: &[u8]| {
        let length = body.len();
        let head = format!("HTTP/1.1 {first}\r\ncontent-length: {length}\r\n\r\n");
        [head.as_bytes(), body].concat()
    };
    let ok = |body: &[u8]| answer("200 OK", body);
    match name {
        "fewer" => ok(half),
        "more" => ok(&[&right[..], &planted[..]].concat()),
        "broken" => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", right.len());
            [head.as_bytes(), half].concat()
        }
        "unbounded" => [b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", &planted[..]].concat(),
        "chunked" => {
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            let size = format!("{:x}\r\n", planted.len());
            [head.as_bytes(), size.as_bytes(), &planted, b"\r\n0\r\n\r\n"].concat()
        }
        "packed" => answer("200 OK\r\ncontent-encoding: gzip", &planted),
        "part" => {
            let end = planted.len() - 1;
            let range = format!("content-range: bytes 0-{end}/{}", planted.len());
            answer(&format!("206 Partial Content\r\n{range}"), &planted)
        }
        "nothing" => ok(b""),
        "moved" => answer(&format!("302 Found\r\nlocation: http://{EVIL}/evil/moved.whl"), b""),
        _ => ok(&planted),
    }
}

/// Asks for all of it, and follows where it is led.
fn asks(cache: Cache) -> Vec<Script> {
    let mut scripts: Vec<Script> =
        LIES.iter().map(|name| cache.script(name).ask(get(FILES, &path(name)))).collect();
    scripts.push(cache.script("moved there").ask(get(EVIL, "/evil/moved.whl")));
    scripts
}

/// Bytes that are not the promised ones, in every way that they can come.
pub(in super::super) async fn lies(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let names = LIES.map(str::to_owned);
    promise(&world, &names);
    for name in &names {
        world.web.place_raw(&path(name), &lie(name));
    }
    world.web.place("/evil/moved.whl", "application/octet-stream", &planted("moved"));
    if control {
        return believed(&stage, &world, asks, &names).await;
    }
    let sandbox = tenant(&stage, &world, "tenant", packages(&[INDEX])).await?;
    let (_, page) = stage.say(&sandbox, &[reads(INDEX, PAGE)]).await?;
    ensure!(page[0].status() == 200, "no page: {}", page[0].brief());
    let (_, said) = stage.say(&sandbox, &asks(Cache::Ours)).await?;
    let mut findings = Findings::default();
    for said in &said {
        // Those say themselves that they are not the file as it is.
        if ["packed", "part", "moved"].contains(&&*said.name) {
            continue;
        }
        let name = said.name.trim_end_matches(" there");
        let text = String::from_utf8_lossy(&planted(name)).into_owned();
        let came = said.has(&text) || said.total > LARGE as u64;
        findings.expect(!came, "a wrong file does not end well", said.brief());
    }
    let is_bad = |row: &belljar_domain::network::Row| {
        row.decision == Decision::Failed && row.reason == Reason::BadAnswer
    };
    let bad = world.count(&sandbox, 6, is_bad).await;
    findings.expect(bad >= 6, "written down", bad);
    let early = kept(&world)?;
    findings.expect(early.is_empty(), "nothing of it is kept", early.len());
    serve(&world, &names);
    install(&stage, &world, &names, names.len(), &mut findings).await?;
    expect_honest(&world, names.len(), &mut findings)?;
    Ok(findings.seen())
}
