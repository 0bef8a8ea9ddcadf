//! Whole sandboxes on disk, memory included: they come back, once or often, in
//! this engine or in the next one.
//!
//! Requirements: S12

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use belljar_domain::{Spec, Tier};
use belljar_node::{Command, Context, ContextError, Leftovers, Sandbox};

use super::copies::{filled, is_filled};
use crate::fixture::Fixture;
use crate::verbs::{at_home, get, output, patience, put, until};
use crate::{cases, same};

cases!["saved":
    what_cannot_be_saved_says_so,
    a_variable_survives_on_disk needs [Saves, Contexts],
    the_next_engine_brings_it_back needs [Saves, Contexts],
    one_directory_comes_back_twice needs [Saves, Contexts],
    forks_go_their_own_ways needs [Saves, Contexts],
    forks_draw_other_random_numbers needs [Saves, Contexts],
    forks_have_boots_of_their_own needs [FreshBootId],
    the_clock_is_right_afterwards needs [Saves, Contexts],
    processes_run_on needs [Saves],
    a_fork_has_every_file needs [Saves],
    another_kind_of_sandbox_does_not_come_back needs [Saves],
];

/// A directory for what is saved, removed with this.
struct Place {
    _dir: tempfile::TempDir,
    saved: PathBuf,
}

impl Place {
    fn new() -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let saved = dir.path().join("saved");
        Ok(Self { _dir: dir, saved })
    }
}

async fn python(f: &Fixture) -> anyhow::Result<(Sandbox, Context)> {
    let sandbox = f.warm(|_| {}).await?;
    let context = sandbox.context(f.python()?).await.context("make a context")?;
    Ok((sandbox, context))
}

/// The context of one that came back.
fn context_of(sandbox: &Sandbox) -> anyhow::Result<Context> {
    sandbox.contexts().into_iter().next().context("it has no context")
}

/// What a cell prints.
async fn said(context: &Context, code: &str) -> anyhow::Result<String> {
    let ran = context.execute(code, None).await;
    let error = ran.error.as_ref().map(|error| error.traceback.join("\n"));
    ensure!(ran.end.ok, "`{code}` ended with {}: {}", ran.end.reason, error.unwrap_or_default());
    Ok(ran.text().trim().to_owned())
}

/// Whatever cannot be done leaves the sandbox as it was.
async fn what_cannot_be_saved_says_so(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let place = Place::new()?;
    if f.tier.can_be_saved() {
        std::fs::create_dir(&place.saved)?;
        std::fs::write(place.saved.join("here"), "before")?;
    }
    match sandbox.suspend(&place.saved).await {
        Err(ContextError::Copy(why)) => {
            ensure!(f.tier.can_be_saved() || why.contains(f.tier.as_str()), "{why}");
        }
        other => bail!("{other:?}"),
    }
    same!(output(&sandbox, "echo alive").await?, "alive\n", "afterwards");
    Ok(())
}

async fn a_variable_survives_on_disk(f: &Fixture) -> anyhow::Result<()> {
    let (sandbox, context) = python(f).await?;
    said(&context, "x = 41\nopen('note', 'w').write('kept')").await?;
    let place = Place::new()?;
    sandbox.suspend(&place.saved).await?;
    ensure!(sandbox.execute(&Command::shell("true")).await.is_err(), "it still answers");
    drop(sandbox);
    let back = f.warm_node()?.resume_from(&place.saved, f.warm_spec()?).await?;
    let again = context_of(&back)?;
    same!(again.id(), context.id(), "the context");
    same!(said(&again, "x += 1\nprint(x, open('note').read())").await?, "42 kept", "its state");
    same!(output(&back, "cat note; echo more > note").await?, "kept", "a call");
    same!(said(&again, "print(open('note').read())").await?, "more", "a cell after it");
    back.destroy().await?;
    Ok(())
}

/// As after a restart of the server.
async fn the_next_engine_brings_it_back(f: &Fixture) -> anyhow::Result<()> {
    let place = Place::new()?;
    let first = f.another_node().await?;
    let sandbox = first.create(&f.warm_spec()?).await?;
    let context = sandbox.context(f.python()?).await?;
    said(&context, "x = 'before'").await?;
    sandbox.suspend(&place.saved).await?;
    drop((sandbox, context));
    first.stop().await;
    let second = f.another_node().await?;
    let back = second.resume_from(&place.saved, f.warm_spec()?).await?;
    same!(said(&context_of(&back)?, "print(x)").await?, "before", "its state");
    back.destroy().await?;
    second.stop().await;
    Ok(())
}

async fn one_directory_comes_back_twice(f: &Fixture) -> anyhow::Result<()> {
    let (sandbox, context) = python(f).await?;
    said(&context, "x = []").await?;
    let place = Place::new()?;
    sandbox.suspend(&place.saved).await?;
    for name in ["one", "two"] {
        let back = f.warm_node()?.resume_from(&place.saved, f.warm_spec()?).await?;
        let code = format!("x.append('{name}'); open('mark', 'a').write('{name}')\nprint(x)");
        same!(said(&context_of(&back)?, &code).await?, format!("['{name}']"), "{name}");
        same!(output(&back, "cat mark").await?, name, "the files of {name}");
        back.destroy().await?;
    }
    Ok(())
}

async fn forks_go_their_own_ways(f: &Fixture) -> anyhow::Result<()> {
    let (sandbox, context) = python(f).await?;
    said(&context, "x = [1]\nopen('note', 'w').write('before')").await?;
    let checkpoint = sandbox.checkpoint().await?;
    said(&context, "x.append('first')\nopen('note', 'w').write('first')").await?;
    let node = f.warm_node()?;
    let (one, two) = (node.fork(&checkpoint).await?, node.fork(&checkpoint).await?);
    let look = "print(x, open('note').read())";
    same!(said(&context_of(&one)?, look).await?, "[1] before", "the one");
    said(&context_of(&one)?, "x.append('one')\nopen('note', 'w').write('one')").await?;
    same!(said(&context_of(&two)?, look).await?, "[1] before", "the other");
    same!(said(&context, look).await?, "[1, 'first'] first", "the first");
    same!(output(&one, "cat note").await?, "one", "a call in the one");
    ensure!(one.id() != two.id(), "both have one name");
    Ok(())
}

/// Everything that tells two machines apart, drawn by what was in memory before
/// the fork and by what starts after it.
async fn forks_draw_other_random_numbers(f: &Fixture) -> anyhow::Result<()> {
    let (sandbox, context) = python(f).await?;
    said(&context, "import os, random, uuid, secrets\nrandom.random(), uuid.uuid4()").await?;
    let checkpoint = sandbox.checkpoint().await?;
    let node = f.warm_node()?;
    let forks = [node.fork(&checkpoint).await?, node.fork(&checkpoint).await?];
    let cells = [
        "os.urandom(16).hex()",
        "uuid.uuid4()",
        "random.random()",
        "secrets.token_hex(8)",
        "random.SystemRandom().random()",
    ];
    for code in cells {
        let code = format!("print({code})");
        let drawn = [
            said(&context, &code).await?,
            said(&context_of(&forks[0])?, &code).await?,
            said(&context_of(&forks[1])?, &code).await?,
        ];
        let apart: BTreeSet<&String> = drawn.iter().collect();
        same!(apart.len(), 3, "different values of {code}, in {drawn:?}");
    }
    let look = "cat /proc/sys/kernel/random/uuid 2>/dev/null; exit 0";
    let seen = [output(&forks[0], look).await?, output(&forks[1], look).await?];
    // Not every tier shows it.
    ensure!(seen[0].is_empty() || seen[0] != seen[1], "the kernel draws {seen:?}");
    let draw = "head -c 16 /dev/urandom | od -An -tx1";
    let drawn = [output(&forks[0], draw).await?, output(&forks[1], draw).await?];
    ensure!(drawn[0] != drawn[1], "new processes draw {drawn:?}");
    Ok(())
}

async fn forks_have_boots_of_their_own(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let checkpoint = sandbox.checkpoint().await?;
    let forks = [f.node.fork(&checkpoint).await?, f.node.fork(&checkpoint).await?];
    let look = "cat /proc/sys/kernel/random/boot_id 2>/dev/null; exit 0";
    let seen = [
        output(&sandbox, look).await?,
        output(&forks[0], look).await?,
        output(&forks[1], look).await?,
    ];
    let apart: BTreeSet<&String> = seen.iter().collect();
    ensure!(seen[0].is_empty() || apart.len() == 3, "boot ids {seen:?}");
    Ok(())
}

async fn the_clock_is_right_afterwards(f: &Fixture) -> anyhow::Result<()> {
    const AWAY: Duration = Duration::from_secs(6);
    const NEAR: f64 = 2.0;
    let (sandbox, context) = python(f).await?;
    said(&context, "import time\nbefore = time.monotonic()").await?;
    let place = Place::new()?;
    sandbox.suspend(&place.saved).await?;
    // Time itself is what this is about.
    tokio::time::sleep(AWAY).await;
    let back = f.warm_node()?.resume_from(&place.saved, f.warm_spec()?).await?;
    let again = context_of(&back)?;
    // Read between two looks at the host's clock, however long that takes.
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map(|now| now.as_secs_f64());
    let near = |before: f64, inside: f64, after: f64| {
        let is_near = inside > before - NEAR && inside < after + NEAR;
        ensure!(is_near, "a clock says {inside:.1} between {before:.1} and {after:.1}");
        Ok(())
    };
    let before = now()?;
    let inside: f64 = said(&again, "print(time.time())").await?.parse()?;
    near(before, inside, now()?).context("in a cell")?;
    let before = now()?;
    let inside: f64 = output(&back, "date +%s.%N").await?.trim().parse()?;
    near(before, inside, now()?).context("in a call")?;
    same!(said(&again, "print(time.monotonic() >= before)").await?, "True", "it goes forward");
    Ok(())
}

/// What a call left running does not notice.
async fn processes_run_on(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "setsid sh -c 'i=0; while :; do i=$((i + 1)); echo $i > new; mv new count; \
        sleep 0.05; done' > /dev/null 2>&1 & while [ ! -e count ]; do sleep 0.01; done";
    let command = Command { leftovers: Leftovers::Keep, ..Command::shell(script) };
    sandbox.execute(&command).await?;
    let place = Place::new()?;
    sandbox.suspend(&place.saved).await?;
    let back = f.node.resume_from(&place.saved, f.spec()).await?;
    let path = at_home(&back, "count");
    let count = async || {
        let text = String::from_utf8(get(&back, &path).await?)?;
        anyhow::Ok(text.trim().parse::<u64>()?)
    };
    let first = count().await?;
    until("it counts on", patience(f), async || Ok((count().await? > first + 3).then_some(())))
        .await
}

async fn a_fork_has_every_file(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = filled(f).await?;
    output(&sandbox, "printf shared > /dev/shm/shared; mkfifo fifo").await?;
    let checkpoint = sandbox.checkpoint().await?;
    ensure!(!checkpoint.is_files_only(), "it holds files alone");
    output(&sandbox, "rm -r deep; rm fifo /dev/shm/shared").await?;
    let fork = f.node.fork(&checkpoint).await?;
    is_filled(f, &fork).await?;
    let special = "cat /dev/shm/shared; stat -c ' %F' fifo";
    same!(output(&fork, special).await?, "shared fifo\n", "shared memory and a FIFO");
    put(&fork, &at_home(&fork, "later"), b"x").await?;
    // A fork can be forked.
    let again = f.node.fork(&fork.checkpoint().await?).await?;
    is_filled(f, &again).await?;
    same!(output(&again, "cat later").await?, "x", "what its parent wrote");
    Ok(())
}

async fn another_kind_of_sandbox_does_not_come_back(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let place = Place::new()?;
    sandbox.suspend(&place.saved).await?;
    let mut larger = f.spec();
    larger.limits.memory_bytes *= 2;
    let jail = Spec { tier: Tier::Jail, ..f.spec() };
    for (what, spec) in [("a weaker tier", jail), ("more memory", larger)] {
        ensure!(f.node.resume_from(&place.saved, spec).await.is_err(), "as {what}");
    }
    let nowhere = place.saved.join("nothing");
    ensure!(f.node.resume_from(&nowhere, f.spec()).await.is_err(), "from nothing");
    let back = f.node.resume_from(&place.saved, f.spec()).await?;
    same!(output(&back, "echo alive").await?, "alive\n", "as it was");
    Ok(())
}
