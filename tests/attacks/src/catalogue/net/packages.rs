//! The cache of packages that all sandboxes of a host share.
//!
//! One index, the files that it promises, and a sandbox that tries to have other
//! bytes kept for them. Then another one, of another tenant, installs them. The
//! controls say the same to a cache that believes everybody.

mod folder;
mod lies;
mod tricks;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::ensure;
use belljar_domain::network::{IndexKind, PackageIndex, Policy, Reason};
use belljar_node::Sandbox;
use belljar_scripted::{Gullible, digest};

pub(super) use folder::reached;
pub(super) use lies::lies;
pub(super) use tricks::tricks;

use super::{directly, works};
use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::say::{Said, Script, get};
use crate::harness::stage::Stage;
use crate::harness::world::World;

/// Whose pages count, where its files lie, and who else would like to be asked.
const INDEX: &str = "allowed.test";
const FILES: &str = "sub.allowed.test";
const EVIL: &str = "data.evil.test";

const PAGE: &str = "/simple/good/";
const EVIL_PAGE: &str = "/simple/evil/";

/// More than is read as a whole.
const LARGE: usize = 3 << 20;

/// The bytes that are promised for a file.
fn right(name: &str) -> Vec<u8> {
    if name.starts_with("large") {
        return vec![b'g'; LARGE];
    }
    format!("the promised bytes of {name}").into_bytes()
}

/// As many other ones.
fn planted(name: &str) -> Vec<u8> {
    let mut bytes = right(name);
    if name.starts_with("large") {
        // All but the last are right.
        bytes[LARGE - 1] = b'p';
        return bytes;
    }
    format!("the poisoned bytes of {name}").into_bytes()
}

fn path(name: &str) -> String {
    format!("/files/{name}.whl")
}

/// A link of a page of the index.
fn link(host: &str, path: &str, promised: &[u8]) -> String {
    format!("<a href=\"http://{host}{path}#sha256={}\">file</a>\n", digest(promised))
}

/// Has the index promise these files, as they are right.
fn promise(world: &World, names: &[String]) {
    let links: String = names.iter().map(|name| link(FILES, &path(name), &right(name))).collect();
    world.web.place(PAGE, "text/html", links.as_bytes());
}

/// Has the files' server tell the truth.
fn serve(world: &World, names: &[String]) {
    for name in names {
        world.web.place(&path(name), "application/octet-stream", &right(name));
    }
}

/// Packages of these hosts' indexes, and nothing else.
fn packages(hosts: &[&str]) -> Policy {
    let index =
        |host: &&str| PackageIndex { kind: IndexKind::Pip, url: format!("http://{host}/simple") };
    Policy { packages: hosts.iter().map(index).collect(), ..Policy::default() }
}

/// Who is asked for files.
#[derive(Debug, Clone, Copy)]
enum Cache {
    Ours,
    Gullible(SocketAddr),
}

impl Cache {
    fn script(self, name: &str) -> Script {
        match self {
            Self::Ours => Script::gateway(name),
            Self::Gullible(address) => Script::to(name, address),
        }
    }
}

/// Reads a page, so that what it names may be asked for.
fn reads(host: &str, page: &str) -> Script {
    Script::gateway(format!("page {page} of {host}")).ask(get(host, page))
}

/// A sandbox of a tenant's.
async fn tenant(
    stage: &Stage,
    world: &World,
    name: &str,
    policy: Policy,
) -> anyhow::Result<Arc<Sandbox>> {
    let sandbox = stage.sandbox(|spec| spec.limits.pids = 256).await?;
    world.connect_as(name, &sandbox, policy).await?;
    Ok(sandbox)
}

fn is_right(said: &Said, name: &str) -> bool {
    said.status() == 200 && said.digest.as_deref() == Some(&*digest(&right(name)))
}

/// Another tenant installs all of it, twice: it must be right, and so many kept.
async fn install(
    stage: &Stage,
    world: &World,
    names: &[String],
    keeps: usize,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let sandbox = tenant(stage, world, "another", packages(&[INDEX])).await?;
    let mut scripts = vec![reads(INDEX, PAGE)];
    for name in [names, names].concat() {
        scripts.push(Script::gateway(name.as_str()).ask(get(FILES, &path(&name))));
    }
    let (_, said) = stage.say(&sandbox, &scripts).await?;
    ensure!(said[0].status() == 200, "no page: {}", said[0].brief());
    for (said, name) in said[1..].iter().zip([names, names].concat()) {
        let as_promised = is_right(said, &name);
        findings.expect(as_promised, "another tenant gets what was promised", said.brief());
        // Nobody else's fetching holds it up for long.
        findings.expect(said.ms < 8000, "in time", said.brief());
    }
    let cached = world.count(&sandbox, keeps, |row| row.reason == Reason::Cached).await;
    findings.expect(cached >= keeps, "the second time from the cache", cached);
    Ok(())
}

/// What a cache that believes everybody hands out after the same was said to it.
async fn believed(
    stage: &Stage,
    world: &World,
    said_before: impl Fn(Cache) -> Vec<Script>,
    names: &[String],
) -> anyhow::Result<Seen> {
    let cache = Gullible::start((world.address, 0).into(), world.at(80)).await?;
    let at = Cache::Gullible(cache.address());
    directly(stage, &said_before(at)).await?;
    serve(world, names);
    let ask = |name: &String| at.script(name).ask(get(FILES, &path(name)));
    let scripts: Vec<Script> = names.iter().map(ask).collect();
    let said = directly(stage, &scripts).await?;
    let wrong = |(said, name): &(&Said, &String)| said.status() == 200 && !is_right(said, name);
    let right: Vec<&str> =
        said.iter().zip(names).filter(|pair| !wrong(pair)).map(|(_, name)| name.as_str()).collect();
    let what = "a cache that believes everybody hands all of them out";
    Ok(if right.is_empty() {
        works(!said.is_empty(), what, &said)
    } else {
        Seen::Held(format!("not so: {what}; right are {}", right.join(", ")))
    })
}

/// Every file that is kept, by its name.
fn kept(world: &World) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut folders = vec![world.packages().join("files")];
    while let Some(folder) = folders.pop() {
        // Opened when it is first needed.
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((name_of(&path), std::fs::read(&path)?));
            }
        }
    }
    Ok(found)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Every file that is kept has the digest that it is kept by.
fn expect_honest(world: &World, least: usize, findings: &mut Findings) -> anyhow::Result<()> {
    let kept = kept(world)?;
    for (name, bytes) in &kept {
        let honest = digest(bytes) == *name;
        findings.expect(honest, "what is kept is what it is kept as", name);
    }
    findings.expect(kept.len() >= least, "and something is", kept.len());
    Ok(())
}
