//! The platform's database: killed, full, broken, slow, and older than it was.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::platform::{begin, spread};
use crate::case::{Case, until};
use crate::client::Client;
use crate::evidence::Outcome;
use crate::load::Load;
use crate::rig::cluster::Shape;
use crate::rig::disk::Disk;
use crate::rig::proxy::Manner;
use crate::rig::{host, run};

/// F-21: killed and stopped at once, again and again, under load.
pub(crate) async fn restarts(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    case.patience = Duration::from_secs(120);
    let kept = clients[0].make().await?;
    let oracle = case.cluster()?.oracle.address;
    let load = Load::begin(&clients, oracle, 3);
    for round in 0..6 {
        tokio::time::sleep(Duration::from_millis(900)).await;
        let postgres = &mut case.cluster()?.postgres;
        if round % 2 == 0 {
            postgres.kill()
        } else {
            postgres.stop_at_once().await?
        }
        postgres.again().await?;
    }
    case.cluster()?.is_whole().await?;
    let did = load.end().await?;
    ensure!(did.made > 5, "hardly anything was asked for: {did}");
    let (state, reason) = case.cluster()?.state_of(&kept)?;
    ensure!(state == "running", "what ran before is {state} {reason}");
    case.heal(&clients[0]).await?;
    Ok(format!("6 restarts: {did}"))
}

/// F-23: its disk is full. What runs reaches its deadline all the same.
pub(crate) async fn full(case: &mut Case) -> anyhow::Result<String> {
    let disk = Disk::make(&case.rig, "pgdisk", 160, None)?;
    let database = Some(disk.path().join("pg"));
    let clients = begin(case, Shape { database, ..Shape::default() }).await?;
    case.patience = Duration::from_secs(120);
    let wish = json!({ "template": "base", "timeout_seconds": 8 });
    let late = clients[0].make_with(&wish).await?;
    let long = clients[0].make().await?;
    let bytes = disk.fill()?;
    // Until the server notices: it may still have room in files that it has.
    let mut refused = None;
    let began = Instant::now();
    while refused.is_none() && began.elapsed() < Duration::from_secs(30) {
        let outcome = clients[0].create(None).await;
        if !matches!(outcome, Outcome::Made(_)) {
            refused = Some(outcome);
        }
    }
    let states: Vec<_> = case.cluster()?.nodes.iter().map(|node| node.state.clone()).collect();
    let count = || states.iter().map(|state| host::inhabited(state).len()).sum::<usize>();
    let before = count();
    until("the deadline counts without the database", async || {
        count() < before || began.elapsed() > Duration::from_secs(10)
    })
    .await?;
    disk.free()?;
    // A server that could not write its log has ended: its operator starts it.
    case.cluster()?.postgres.again().await?;
    case.cluster()?.is_whole().await?;
    until("the end is on the books", async || {
        case.cluster
            .as_ref()
            .is_some_and(|it| it.state_of(&late).is_ok_and(|(state, _)| state == "ended"))
    })
    .await?;
    let (state, reason) = case.cluster()?.state_of(&long)?;
    case.heal(&clients[0]).await?;
    let refused = refused.map_or("never refused".to_owned(), |outcome| format!("{outcome:?}"));
    Ok(format!(
        "{} MiB of ballast; a create: {refused}; what had longer: {state} {reason}",
        bytes >> 20
    ))
}

/// F-24: the disk says that it could not write.
pub(crate) async fn fsync_fails(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    case.patience = Duration::from_secs(120);
    let before = clients[0].make().await?;
    let postgres = &mut case.cluster()?.postgres;
    let pid =
        postgres.sql("select pid from pg_stat_activity where backend_type = 'checkpointer'")?;
    let log = case.rig.dir.join("strace.log");
    let mut words: Vec<String> =
        ["strace", "-f", "-p", pid.trim(), "-e", "trace=fsync,fdatasync"].map(str::to_owned).into();
    words.extend(["-e".to_owned(), "inject=fsync,fdatasync:error=EIO".to_owned()]);
    let record = case.rig.record.clone();
    let mut strace = crate::rig::program::Program::new(&record, log.clone(), None, words);
    strace.start(&[])?;
    let attached = until("strace is attached", async || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("attached"))
    });
    attached.await.context("cannot trace the server")?;
    let created = clients[1].make().await?;
    let postgres = &mut case.cluster()?.postgres;
    let failed = postgres.sql("checkpoint").is_err();
    strace.kill();
    ensure!(failed, "the server did not notice that nothing was written");
    postgres.again().await?;
    case.cluster()?.is_whole().await?;
    for id in [&before, &created] {
        let (state, reason) = case.cluster()?.state_of(id)?;
        ensure!(state == "running", "{id} is {state} {reason}");
        clients[0].run(id, "true").await?;
    }
    case.heal(&clients[0]).await?;
    Ok("the server stopped itself, started again, and had everything".to_owned())
}

/// F-25: slow, and held by somebody's lock for a while.
pub(crate) async fn slow(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape { is_proxied: true, ..Shape::default() }).await?;
    case.patience = Duration::from_secs(120);
    let made = spread(case, &clients[0]).await?;
    let oracle = case.cluster()?.oracle.address;
    let load = Load::begin(&clients, oracle, 3);
    for proxy in &case.cluster()?.database_proxies {
        proxy.behave(Manner::Delay(Duration::from_millis(60)));
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    for proxy in &case.cluster()?.database_proxies {
        proxy.behave(Manner::Pass);
    }
    // Not on this thread: nobody else may have to wait for it.
    let cluster = case.cluster.take().context("no cluster")?;
    let (cluster, locked) = tokio::task::spawn_blocking(move || {
        let lock = "begin; lock table sandbox in exclusive mode; select pg_sleep(4); commit";
        let locked = cluster.postgres.sql(lock);
        (cluster, locked)
    })
    .await?;
    case.cluster = Some(cluster);
    locked?;
    let did = load.end().await?;
    let lost = case.cluster()?.postgres.sql("select count(*) from node where epoch > 1")?;
    ensure!(lost.trim() == "0", "{} nodes were given up because of it", lost.trim());
    for id in made.iter().flatten() {
        let (state, reason) = case.cluster()?.state_of(id)?;
        ensure!(state == "running", "{id} is {state} {reason}");
    }
    case.heal(&clients[0]).await?;
    Ok(format!("60 ms more for every piece, then 4 s of a locked table: {did}"))
}

/// F-39: one control has no database; the other has.
pub(crate) async fn one_without(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape { is_proxied: true, ..Shape::default() }).await?;
    case.patience = Duration::from_secs(120);
    let made = spread(case, &clients[0]).await?;
    case.history.may_break(true);
    // Refused at once: it knows, and says so to nodes, while the other could give
    // them up. (That nothing comes back at all is F-38's.)
    let proxy = &case.cluster()?.database_proxies[0];
    proxy.behave(Manner::Refuse);
    proxy.cut();
    let began = Instant::now();
    let stranger = Client { key: "e2b_".to_owned() + &"1".repeat(40), ..clients[0].clone() };
    let mut got = 0;
    while began.elapsed() < Duration::from_secs(14) {
        let let_in = stranger.create(None).await;
        got += usize::from(matches!(let_in, Outcome::Made(_)));
        // The other goes on.
        let outcome = clients[1].create(None).await;
        if let Outcome::Made(id) = &outcome {
            clients[1].delete(id).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    case.probe("a key that nobody can prove", got > 0);
    // Now: is anything given up that still runs?
    let mut evidence = crate::evidence::Evidence::default();
    case.cluster()?.add_to(&mut evidence).await?;
    let wrong = crate::invariants::violations(&[crate::invariants::Invariant::I6], &evidence);
    case.probe(format!("a node with two owners, in the middle: {wrong:?}"), !wrong.is_empty());
    case.cluster()?.database_proxies[0].behave(Manner::Pass);
    case.history.may_break(false);
    case.cluster()?.is_whole().await?;
    // The other replica has the database, so no node had to be given up.
    for id in made.iter().flatten() {
        let (state, reason) = case.cluster()?.state_of(id)?;
        ensure!(state == "running", "{id} is {state} {reason}");
    }
    case.heal(&clients[0]).await?;
    let count = made.iter().flatten().count();
    Ok(format!("{count} sandboxes went on through 14 s"))
}

/// A copy of the database's files, as of now.
async fn copied(case: &mut Case, name: &str) -> anyhow::Result<std::path::PathBuf> {
    let postgres = &mut case.cluster()?.postgres;
    postgres.stop().await?;
    let from = postgres.data().to_owned();
    let to = from.with_file_name(name);
    copy(&from, &to)?;
    case.cluster()?.postgres.again().await?;
    case.cluster()?.is_whole().await?;
    Ok(to)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    run("cp", &["-a", &from.display().to_string(), &to.display().to_string()]).map(drop)
}

/// Puts the copy in place of what was written since.
async fn put_back(case: &mut Case, from: &Path) -> anyhow::Result<()> {
    let postgres = &mut case.cluster()?.postgres;
    postgres.stop_at_once().await?;
    let data = postgres.data().to_owned();
    std::fs::remove_dir_all(&data)?;
    copy(from, &data)?;
    case.cluster()?.postgres.again().await
}

/// F-26 and F-64: the database is an older one; what was made since is on no book.
async fn older(case: &mut Case, also_restarts: bool) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    case.patience = Duration::from_secs(120);
    let before = spread(case, &clients[0]).await?;
    let copy = copied(case, "copy").await?;
    let quiet = Client { history: crate::client::History::default(), ..clients[0].clone() };
    let ended = before[0][0].clone();
    ensure!(quiet.delete(&ended).await == Outcome::Done, "it cannot be ended");
    let mut since = Vec::new();
    for _ in 0..6 {
        since.push(quiet.make().await?);
    }
    if also_restarts {
        // A node registered since then: its epoch is on no book either.
        case.history.may_break(true);
        let node = &mut case.cluster()?.nodes[0];
        node.kill();
        node.start()?;
        case.cluster()?.is_whole().await?;
    }
    case.history.may_break(true);
    put_back(case, &copy).await?;
    let took = case.cluster()?.is_whole().await?;
    case.history.may_break(false);
    // What is on no book is gone; what had ended and is on the books again, too.
    let cluster = case.cluster.as_ref().context("no cluster")?;
    until("the books and the hosts agree", async || {
        let mut evidence = crate::evidence::Evidence::default();
        let read = cluster.add_to(&mut evidence).await;
        let judged = [crate::invariants::Invariant::I3, crate::invariants::Invariant::I6];
        read.is_ok() && crate::invariants::violations(&judged, &evidence).is_empty()
    })
    .await?;
    for id in &since {
        case.probe(
            format!("{id}, which is on no book"),
            quiet.call(id, "true").await.0 == Outcome::Done,
        );
    }
    case.heal(&clients[0]).await?;
    let run = before.iter().flatten().filter(|id| {
        case.cluster
            .as_ref()
            .is_some_and(|it| it.state_of(id).is_ok_and(|(state, _)| state == "running"))
    });
    let (run, all) = (run.count(), before.iter().flatten().count());
    Ok(format!("whole again after {:.1} s; {run} of {all} older ones went on", took.as_secs_f64()))
}

pub(crate) async fn failover(case: &mut Case) -> anyhow::Result<String> {
    older(case, false).await
}

pub(crate) async fn restored(case: &mut Case) -> anyhow::Result<String> {
    older(case, true).await
}
