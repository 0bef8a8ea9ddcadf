//! The database under many writers: some twice, some late, some cut off.

mod bench;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_domain::{EndReason, SandboxId};
use belljar_store::{Change, Charge, Outgoing, Requested, Store};
use serde_json::Value;

use self::bench::{Bench, TENANT, id};
use crate::case::Case;
use crate::evidence::{Figure, Healed};
use crate::rig::proxy::{Manner, Proxy};

/// F-13: many schedulers at once, none of whom knows of the others.
pub(crate) async fn many_schedulers(case: &mut Case) -> anyhow::Result<String> {
    let bench = Bench::make(case).await?;
    let mut starts = BTreeMap::new();
    for number in 0..20 {
        let key = format!("key-{number}");
        let row = bench.request(&case.history, &key, number).await?;
        let mut placing = Vec::new();
        for scheduler in 0..8_u16 {
            let (store, row, node) = (bench.store.clone(), row.clone(), bench.node(scheduler));
            placing.push(tokio::spawn(async move {
                let new = id(number, u8::try_from(scheduler)? + 1);
                let epoch = store.place(TENANT, &row.id, row.epoch, &new, node).await?;
                anyhow::Ok(epoch.map(|epoch| (new, epoch)))
            }));
        }
        for one in placing {
            if let Some((id, epoch)) = one.await?? {
                *starts.entry(key.clone()).or_insert(0) += 1;
                let started = bench.store.started(TENANT, &id, epoch, bench::LIFE).await?;
                ensure!(started == Change::Done, "who placed it cannot start it: {started:?}");
            }
        }
    }
    ensure!(starts.len() == 20, "{} of 20 were placed", starts.len());
    case.effects = Some(starts);
    Ok("20 requests, 8 schedulers each: each was placed once".to_owned())
}

/// The same by writers that look first and write then.
pub(crate) async fn many_schedulers_without_epochs(case: &mut Case) -> anyhow::Result<String> {
    let bench = Bench::make(case).await?;
    let mut starts = BTreeMap::new();
    let row = bench.request(&case.history, "key-0", 0).await?;
    let postgres = case.postgres()?;
    // Both looked at it while it was waiting.
    for _ in 0..2 {
        let place = "update sandbox set state = 'running', node = 1, node_epoch = 1, epoch = 1";
        postgres.sql(&format!("{place} where id = '{}'", row.id))?;
        *starts.entry("key-0".to_owned()).or_insert(0) += 1;
    }
    case.effects = Some(starts);
    Ok("two schedulers, no epochs".to_owned())
}

/// F-17: everything that is said is said many times, and out of order.
pub(crate) async fn said_again(case: &mut Case) -> anyhow::Result<String> {
    let bench = Bench::make(case).await?;
    let mut done = BTreeMap::new();
    for number in 0..5 {
        let (id, epoch) = bench.running(&case.history, number).await?;
        let source = format!("session:{id}");
        let charge = Charge {
            tenant: TENANT,
            debit: "usage",
            credit: "platform",
            nano_dollars: 1000,
            source: &source,
            sandbox: Some(&id),
            detail: &Value::Null,
        };
        // 200 times each, by ten at once; the end before the start, too.
        let mut saying = Vec::new();
        for turn in 0..10_u32 {
            let (store, id) = (bench.store.clone(), id.clone());
            saying.push(tokio::spawn(async move {
                let mut ended = 0_u32;
                for again in 0..20 {
                    if (again + turn) % 3 == 0 {
                        let started = store.started(TENANT, &id, epoch, bench::LIFE).await?;
                        ensure!(started != Change::Done, "it started twice");
                    }
                    let change = store.end(TENANT, &id, Some(epoch), EndReason::Killed).await?;
                    ended += u32::from(change == Change::Done);
                    let old = store.end(TENANT, &id, Some(epoch - 1), EndReason::Lost).await?;
                    ensure!(old == Change::Stale, "an old epoch ended it");
                }
                anyhow::Ok(ended)
            }));
        }
        let mut ends = 0;
        for one in saying {
            ends += one.await??;
        }
        let mut charged = 0_u32;
        for _ in 0..200 {
            charged += u32::from(bench.store.charge(&charge).await? == Change::Done);
        }
        done.insert(format!("end of {id}"), ends);
        done.insert(format!("charge of {id}"), charged);
    }
    ensure!(done.values().all(|&count| count == 1), "{done:?}");
    case.effects = Some(done);
    Ok("5 sandboxes: 200 ends, 70 late starts and 200 charges each, one of each counted".to_owned())
}

/// The same where the table does not insist.
pub(crate) async fn said_again_without_keys(case: &mut Case) -> anyhow::Result<String> {
    let bench = Bench::make(case).await?;
    bench.running(&case.history, 0).await?;
    let postgres = case.postgres()?;
    postgres.sql("alter table ledger drop constraint ledger_tenant_source_key")?;
    for _ in 0..2 {
        let row = format!("('{TENANT}', 'usage', 'platform', 1000, 'session:0')");
        postgres.sql(&format!(
            "insert into ledger (tenant, debit, credit, nano_dollars, source) values {row}"
        ))?;
    }
    case.effects = Some(BTreeMap::from([("end of 0".to_owned(), 1)]));
    Ok("a charge came twice".to_owned())
}

/// F-19: a message comes again after the bus has forgotten that it had it.
pub(crate) async fn after_the_window(case: &mut Case) -> anyhow::Result<String> {
    let bench = Bench::make(case).await?;
    let (sandbox, epoch) = bench.running(&case.history, 0).await?;
    bench.store.end(TENANT, &sandbox, Some(epoch), EndReason::Killed).await?;
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut effects = BTreeMap::new();
    // A reader that acts on each message it gets, by the row: what a bus without a
    // memory delivers.
    for round in 0..4 {
        let outgoing = some(&bench.store).await.with_context(|| format!("round {round}"))?;
        for message in &outgoing.messages {
            *seen.entry(message.id.clone()).or_default() += 1;
            let id: SandboxId = message.body["sandbox"].as_str().context("no id")?.parse()?;
            let source = format!("ended:{id}");
            let charge = Charge {
                tenant: TENANT,
                debit: "usage",
                credit: "platform",
                nano_dollars: 7,
                source: &source,
                sandbox: Some(&id),
                detail: &Value::Null,
            };
            if bench.store.charge(&charge).await? == Change::Done {
                *effects.entry(source.clone()).or_insert(0) += 1;
            }
        }
        match round {
            // The publisher died before it could say that it had sent them.
            0 | 1 => drop(outgoing),
            2 => {
                outgoing.sent().await?;
                // The stream was lost: the same again, under new ids.
                bench.store.send_again(Duration::from_secs(600)).await?;
            }
            _ => outgoing.sent().await?,
        }
    }
    ensure!(seen.len() == 2, "{seen:?}: the same id until it is sent again on purpose");
    let again = seen.values().copied().max().unwrap_or_default();
    ensure!(again == 3, "it was sent {again} times under its first id");
    case.effects = Some(effects);
    case.healed = Some(Healed { after: Duration::ZERO, within: Duration::from_secs(1) });
    Ok("one message, sent 4 times under 2 ids, had one effect".to_owned())
}

/// What is to be sent. A publisher that died holds its rows until the database knows.
async fn some(store: &Store) -> anyhow::Result<Outgoing> {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let outgoing = store.outgoing(100).await?;
        if !outgoing.messages.is_empty() {
            return Ok(outgoing);
        }
        ensure!(Instant::now() < until, "nothing was to be sent");
        drop(outgoing);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// F-22: the connection breaks exactly when the database says that it is done.
pub(crate) async fn cut_at_commit(case: &mut Case) -> anyhow::Result<String> {
    let bench = Bench::make(case).await?;
    let (proxy, store) = behind_proxy(case).await?;
    let (mut cut, mut repeated) = (0, 0);
    for number in 0..20 {
        let key = format!("key-{number}");
        store.ping().await?;
        // What the server says when a row was inserted.
        proxy.behave(Manner::CutAtReply(b"INSERT 0 1".to_vec()));
        let mut made = None;
        for attempt in 0..10 {
            match bench.ask(&store, &key, id(number, attempt)).await {
                Ok(Requested::Made(row)) => made = Some(row),
                Ok(Requested::Repeated(row)) => {
                    repeated += 1;
                    made = Some(row);
                }
                Ok(other) => anyhow::bail!("{other:?}"),
                Err(_) => {
                    cut += 1;
                    continue;
                }
            }
            break;
        }
        let row = made.context("ten attempts were not enough")?;
        case.history.pretend(&key, row.id.as_str());
        let placed = bench.store.place(TENANT, &row.id, row.epoch, &row.id, bench.node(0)).await?;
        let epoch = placed.context("it cannot be placed")?;
        bench.store.started(TENANT, &row.id, epoch, bench::LIFE).await?;
    }
    proxy.behave(Manner::Pass);
    ensure!(proxy.swallowed() >= 20 && cut >= 20, "only {cut} commits were cut");
    ensure!(repeated >= 20, "only {repeated} of {cut} found what they had made");
    Ok(format!("{cut} commits whose answer was lost; each found its row when it asked again"))
}

/// The same by a client that has no key to ask again with.
pub(crate) async fn cut_at_commit_without_key(case: &mut Case) -> anyhow::Result<String> {
    let bench = Bench::make(case).await?;
    let (proxy, store) = behind_proxy(case).await?;
    store.ping().await?;
    proxy.behave(Manner::CutAtReply(b"INSERT 0 1".to_vec()));
    for attempt in 0..5 {
        let own = format!("attempt-{attempt}");
        if bench.ask(&store, &own, id(0, attempt)).await.is_ok() {
            break;
        }
    }
    for row in case.postgres()?.rows("sandbox")? {
        case.history.pretend("the request", row["id"].as_str().unwrap_or_default());
    }
    Ok("asked again without a key".to_owned())
}

async fn behind_proxy(case: &mut Case) -> anyhow::Result<(Proxy, Store)> {
    let upstream = case.postgres()?.address();
    let proxy = Proxy::start(([127, 0, 0, 1], 0).into(), upstream).await?;
    let url = crate::rig::postgres::url(proxy.address);
    let store = Store::connect(&url, 2).await?;
    Ok((proxy, store))
}

/// F-27: changes that meet, wait for each other, and are thrown out by the server.
pub(crate) async fn storms(case: &mut Case) -> anyhow::Result<String> {
    let bench = Bench::make(case).await?;
    let storm = tokio::spawn({
        let url = case.postgres()?.url();
        async move {
            let store = Store::connect(&url, 4).await?;
            // Nodes that are given up and come again while everybody writes.
            for _ in 0..40 {
                store.give_up(Duration::ZERO).await?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            anyhow::Ok(())
        }
    });
    let mut working = Vec::new();
    for worker in 0..12_u8 {
        let bench = bench.clone();
        let history = case.history.clone();
        working.push(tokio::spawn(async move {
            let mut repeats = 0_u32;
            for turn in 0..12_u8 {
                let key = format!("key-{worker}-{turn}");
                let made = loop {
                    match bench.request_as(&history, &key, id(worker, turn)).await {
                        Err(error) if repeats < 500 => {
                            let _ = error;
                            repeats += 1;
                        }
                        other => break other?,
                    }
                };
                let placed =
                    bench.store.place(TENANT, &made.id, made.epoch, &made.id, bench.node(0));
                if let Some(epoch) = placed.await? {
                    bench.store.started(TENANT, &made.id, epoch, bench::LIFE).await?;
                }
                let ended = bench.store.end(TENANT, &made.id, None, EndReason::Killed).await?;
                ensure!(ended != Change::Stale, "nobody knows what was just made");
            }
            anyhow::Ok(repeats)
        }));
    }
    // Someone with a client of their own holds rows, and kills whoever waits.
    let postgres = case.postgres()?;
    for _ in 0..6 {
        postgres.sql("begin; select 1 from quota for update; select pg_sleep(0.3); commit")?;
        let victims = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                       where application_name = 'belljar' and random() < 0.3";
        postgres.sql(victims)?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (mut repeats, mut broken) = (0, 0);
    for one in working {
        match one.await? {
            Ok(count) => repeats += count,
            Err(_) => broken += 1,
        }
    }
    let _ = storm.await?;
    // Whoever was cut off left its row; the one who looks for those ends them.
    for row in bench.store.stuck(Duration::ZERO).await? {
        bench.store.end(TENANT, &row.id, None, EndReason::Lost).await?;
    }
    Ok(format!("144 requests, {repeats} repeated, {broken} of 12 workers lost their connection"))
}

/// F-55: many reapers, one of them killed in the middle of its transaction.
pub(crate) async fn many_reapers(case: &mut Case) -> anyhow::Result<String> {
    let bench = Bench::make(case).await?;
    for number in 0..40 {
        bench.running(&case.history, number).await?;
    }
    let postgres = case.postgres()?;
    // One reaper begins, holds everything, and is killed.
    let held = "begin; update node set state = 'lost'; update sandbox set state = 'ended', \
                ended_at = now(), reason = 'lost'; select pg_terminate_backend(pg_backend_pid())";
    ensure!(postgres.sql(held).is_err(), "the reaper was not killed");
    postgres.sql("update node set lease_until = now() - interval '1 second'")?;
    let mut reaping = Vec::new();
    for _ in 0..10 {
        let store = bench.store.clone();
        reaping.push(tokio::spawn(async move { store.give_up(Duration::ZERO).await }));
    }
    let mut effects: BTreeMap<String, u32> = BTreeMap::new();
    for one in reaping {
        for id in one.await??.into_iter().flat_map(|node| node.sandboxes) {
            *effects.entry(format!("end of {id}")).or_default() += 1;
        }
    }
    ensure!(effects.len() == 40, "{} of 40 were ended", effects.len());
    let again = bench.store.give_up(Duration::ZERO).await?;
    ensure!(again.is_empty(), "{} ended again", again.len());
    case.effects = Some(effects);
    let told = case.postgres()?.sql("select count(*) from outbox")?;
    let told: u64 = told.trim().parse()?;
    case.figures.push(Figure { what: "ends told".to_owned(), before: 40, after: told, slack: 0 });
    Ok("10 reapers at once: 40 sandboxes ended once each".to_owned())
}

/// The same by reapers that free the place in a second step.
pub(crate) async fn many_reapers_in_two_steps(case: &mut Case) -> anyhow::Result<String> {
    let bench = Bench::make(case).await?;
    for number in 0..3 {
        bench.running(&case.history, number).await?;
    }
    let postgres = case.postgres()?;
    // Both saw one that was to be ended, and both free its place.
    postgres.sql(
        "update sandbox set state = 'ended', ended_at = now(), reason = 'lost' \
                  where id = (select min(id) from sandbox)",
    )?;
    for _ in 0..2 {
        postgres.sql("update quota set used = used - 1")?;
    }
    case.figures.push(Figure { what: "ends told".to_owned(), before: 1, after: 1, slack: 0 });
    case.effects = Some(BTreeMap::from([("end".to_owned(), 1)]));
    Ok("two reapers, two steps".to_owned())
}
