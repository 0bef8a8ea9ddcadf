//! Copies of sandboxes: files of any, kept in memory or on a disk.
//!
//! Requirements: S12, S15

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use belljar_domain::limits::MIB;
use belljar_domain::{Bind, Spec, Tier, User};
use belljar_node::{Checkpoint, Command, ContextError, NodeError, Origin, Sandbox, SaveError};
use belljar_testkit::{OwnEngines, groups_of_engine};

use crate::features::Feature;
use crate::fixture::Fixture;
use crate::residue::{descendants, directories_below};
use crate::verbs::{at_home, errno, lossy, output, output_of, patience, put, refused};
use crate::{cases, same};

cases!["copies":
    any_sandbox_can_be_copied needs [CopiesFiles],
    special_files_are_copied needs [CopiesSpecial],
    files_on_the_host_are_not_copied,
    executed_contexts_are_refused_by_name needs [CopiesFiles, Contexts],
    a_copy_may_have_other_limits needs [CopiesFiles, SizedDisk],
    a_copy_can_be_kept_on_a_disk needs [CopiesFiles],
    what_is_no_copy_is_not_loaded needs [CopiesFiles],
    a_forged_copy_does_not_lead_out needs [CopiesFiles],
    a_paused_sandbox_stays_paused needs [CopiesFiles, Pause],
    a_copy_is_of_one_moment needs [CopiesFiles, Pause],
    files_of_a_warm_sandbox_stand_alone needs [Warm],
    a_warm_root_that_cannot_be_built_is_refused needs [Warm],
];

/// What a sandbox can have in its files, and how it looks from inside.
const FILL: &str = "mkdir -p deep/er; printf content > deep/er/file; chmod 640 deep/er/file
    ln -s ../deep link
    truncate -s 50M sparse; printf end >> sparse; touch -d @1000000000 old
    (umask 077; echo kept > /tmp/kept)";
const LOOK: &str = "cat deep/er/file; stat -c ' %a %U' deep/er/file; readlink link
    stat -c %s sparse; stat -c %Y old; ls /etc/gone; true";

pub(super) async fn filled(f: &Fixture) -> anyhow::Result<Sandbox> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, FILL).await?;
    let file = at_home(&sandbox, "noted");
    let attributes = [(b"user.note".to_vec(), b"kept".to_vec())];
    sandbox.upload_with(User::User.into(), &file, 0o600, &attributes, &mut &b"x"[..]).await?;
    let mut remove = Command::shell("rm /etc/hosts; mkdir -p /srv/new; echo root > /srv/new/file");
    remove.user = User::Root;
    output_of(&sandbox, &remove).await?;
    Ok(sandbox)
}

pub(super) async fn is_filled(f: &Fixture, copy: &Sandbox) -> anyhow::Result<()> {
    let want = "content 640 user\n../deep\n52428803\n1000000000\n";
    same!(output(copy, LOOK).await?, want, "its files");
    ensure!(copy.stat(User::User, b"/etc/hosts").await.is_err(), "what was removed is back");
    let made = output(copy, "cat /srv/new/file; stat -c %U /srv/new/file").await?;
    // Where the engine is not root, all files are the one user's.
    let owner = if f.has(Feature::RootUser).is_ok() { "root" } else { "user" };
    same!(made, format!("root\n{owner}\n"), "root's");
    if f.tier == Tier::Jail {
        let temporary = output(copy, "cat /tmp/kept; stat -c %a /tmp/kept").await?;
        same!(temporary, "kept\n600\n", "a temporary file");
    }
    let noted = copy.stat_with(User::User, &at_home(copy, "noted"), Some(b"user.")).await?;
    same!(noted.attributes, [(b"user.note".to_vec(), b"kept".to_vec())], "attributes");
    Ok(())
}

/// A checkpoint of files alone; without contexts, that is what most tiers take.
async fn files_of(f: &Fixture, sandbox: &Sandbox) -> anyhow::Result<Checkpoint> {
    let taken = match f.tier.can_be_saved() {
        true => sandbox.checkpoint_files().await,
        false => sandbox.checkpoint().await,
    };
    Ok(taken?)
}

async fn any_sandbox_can_be_copied(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = filled(f).await?;
    let checkpoint = files_of(f, &sandbox).await?;
    ensure!(checkpoint.is_files_only(), "it holds interpreters");
    output(&sandbox, "rm -r deep; echo later > later").await?;
    let (one, two) = (f.node.fork(&checkpoint).await?, f.node.fork(&checkpoint).await?);
    is_filled(f, &one).await?;
    output(&one, "echo changed > deep/er/file").await?;
    is_filled(f, &two).await?;
    same!(output(&sandbox, "cat later; ls deep 2>&1; true").await?.lines().count(), 2, "the first");
    refused(one.stat(User::User, &at_home(&one, "later")).await, "later", &[errno::ENOENT])?;
    // A copy can be copied.
    let again = f.node.fork(&two.checkpoint_files().await?).await?;
    is_filled(f, &again).await?;
    Ok(())
}

async fn special_files_are_copied(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "printf shared > /dev/shm/shared; mkfifo fifo").await?;
    let copy = f.node.fork(&files_of(f, &sandbox).await?).await?;
    same!(output(&copy, "cat /dev/shm/shared; stat -c ' %F' fifo").await?, "shared fifo\n", "both");
    Ok(())
}

async fn files_on_the_host_are_not_copied(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let taken = sandbox.checkpoint_files().await;
    if f.has(Feature::CopiesFiles).is_ok() {
        same!(taken?.spec().root, f.spec().root, "the base");
        return Ok(());
    }
    match taken {
        Err(ContextError::Copy(why)) => {
            ensure!(why.contains("directory") || why.contains("disk"), "{why}");
        }
        other => bail!("{other:?}"),
    }
    Ok(())
}

async fn executed_contexts_are_refused_by_name(f: &Fixture) -> anyhow::Result<()> {
    // The template, on a node that has not warmed it up.
    let spec = Spec { root: f.warm_template()?.root.clone(), ..f.spec() };
    let sandbox = f.node.create(&spec).await?;
    put(&sandbox, &at_home(&sandbox, "file"), b"kept").await?;
    let context = sandbox.context(f.python()?).await?;
    same!(context.facts().origin, Origin::Executed, "where it comes from");
    match sandbox.checkpoint().await {
        Err(ContextError::Copy(why)) if !f.tier.can_be_saved() => {
            ensure!(why.contains(&format!("context {}", context.id())), "{why}");
        }
        // A kernel of its own is saved with all its processes.
        Ok(checkpoint) if f.tier.can_be_saved() => {
            ensure!(!checkpoint.is_files_only(), "the interpreter is missing");
        }
        other => bail!("{other:?}"),
    }
    // Whoever wants the files alone gets them.
    let copy = f.node.fork(&sandbox.checkpoint_files().await?).await?;
    same!(output(&copy, "cat file").await?, "kept", "the copy");
    ensure!(copy.contexts().is_empty(), "it has contexts");
    sandbox.delete_context(context.id()).await?;
    sandbox.checkpoint().await?;
    Ok(())
}

async fn a_copy_may_have_other_limits(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "head -c 20000000 /dev/urandom > big").await?;
    let checkpoint = sandbox.checkpoint_files().await?;
    let mut limits = sandbox.limits().clone();
    limits.disk_bytes = 64 * MIB;
    limits.memory_bytes = 256 * MIB;
    let copy = f.node.fork_with(&checkpoint, &limits).await?;
    same!(copy.limits(), &limits, "the limits");
    let usage = copy.usage();
    same!(usage.disk_total_bytes, Some(64 * MIB), "the disk");
    same!(usage.memory_limit_bytes, 256 * MIB, "the memory");
    same!(output(&copy, "wc -c < big").await?.trim(), "20000000", "the file");
    limits.disk_bytes = 16 * MIB;
    match f.node.fork_with(&checkpoint, &limits).await {
        Err(NodeError::Start(_)) => {}
        other => bail!("a disk that is too small: {:?}", other.err()),
    }
    f.node.fork(&checkpoint).await?;
    Ok(())
}

async fn a_copy_can_be_kept_on_a_disk(f: &Fixture) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("kept");
    let spec = {
        let sandbox = filled(f).await?;
        let checkpoint = files_of(f, &sandbox).await?;
        let written = checkpoint.save(&path).await?;
        same!(std::fs::metadata(&path)?.len(), written, "the file");
        same!(std::fs::read_dir(dir.path())?.count(), 1, "files beside it");
        sandbox.destroy().await?;
        checkpoint.spec().clone()
    };
    let loaded = Checkpoint::load(&path, spec).await?;
    std::fs::remove_file(&path)?;
    is_filled(f, &f.node.fork(&loaded).await?).await?;
    // Another engine, as another process would have.
    let other = f.another_node().await?;
    let copy = other.fork(&loaded).await?;
    is_filled(f, &copy).await?;
    copy.destroy().await?;
    other.stop().await;
    Ok(())
}

async fn what_is_no_copy_is_not_loaded(f: &Fixture) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("kept");
    let sandbox = f.sandbox().await?;
    put(&sandbox, &at_home(&sandbox, "file"), &[7; 100_000]).await?;
    files_of(f, &sandbox).await?.save(&path).await?;
    let good = std::fs::read(&path)?;
    let load = async |bytes: &[u8]| {
        std::fs::write(&path, bytes)?;
        anyhow::Ok(Checkpoint::load(&path, f.spec()).await)
    };
    ensure!(load(&good).await?.is_ok(), "it cannot be loaded as it was");
    let changed = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x40;
        bytes
    };
    ensure!(matches!(load(&changed(0)).await?, Err(SaveError::NotACheckpoint { .. })), "magic");
    ensure!(matches!(load(b"").await?, Err(SaveError::NotACheckpoint { .. })), "empty");
    ensure!(matches!(load(&changed(8)).await?, Err(SaveError::Version { .. })), "version");
    ensure!(matches!(load(&changed(12)).await?, Err(SaveError::Length { .. })), "length");
    for cut in [20, good.len() / 2, good.len() - 1] {
        ensure!(matches!(load(&good[..cut]).await?, Err(SaveError::Length { .. })), "cut at {cut}");
    }
    let longer = [&good[..], b"x"].concat();
    ensure!(matches!(load(&longer).await?, Err(SaveError::Length { .. })), "a byte more");
    let mut small = f.spec();
    small.limits.disk_bytes = MIB;
    let huge = Checkpoint::load(&path, Spec { tier: Tier::Process, ..small }).await;
    ensure!(matches!(huge, Err(SaveError::NoSuchSandbox)), "another tier");
    // Nonsense behind a good header is found where it is laid out.
    let mut nonsense = good.clone();
    nonsense[18..].fill(0xff);
    let loaded = load(&nonsense).await?;
    ensure!(f.node.fork(&loaded?).await.is_err(), "nonsense was laid out");
    same!(output(&f.sandbox().await?, "echo alive").await?, "alive\n", "afterwards");
    Ok(())
}

/// Names of a forged archive, laid out before the sandbox has its own root.
async fn a_forged_copy_does_not_lead_out(f: &Fixture) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("kept");
    let sandbox = f.sandbox().await?;
    let mark = format!("{:08x}", std::process::id());
    let honest = format!("honest-forged-{mark}");
    put(&sandbox, &at_home(&sandbox, &honest), b"x").await?;
    files_of(f, &sandbox).await?.save(&path).await?;
    let good = std::fs::read(&path)?;
    let at = good.windows(honest.len()).position(|bytes| bytes == honest.as_bytes());
    let at = at.context("the name is not in the file")?;
    for forged in [
        format!("../../forged-{mark}"),
        format!("../../../../t-{mark}"),
        format!("/tmp//forged-{mark}"),
    ] {
        let name = format!("{forged:_<width$}", width = honest.len());
        same!(name.len(), honest.len(), "the length of {name}");
        let mut bytes = good.clone();
        bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
        std::fs::write(&path, &bytes)?;
        let loaded = Checkpoint::load(&path, f.spec()).await?;
        match f.node.fork(&loaded).await {
            Err(NodeError::Start(_)) => {}
            other => {
                bail!("{name}: {:?}", other.map(|copy| lossy(copy.home(User::User).as_bytes())))
            }
        }
        let state = f.state.display().to_string();
        for place in ["/tmp", "/run", state.as_str(), "/"] {
            for entry in std::fs::read_dir(place)?.flatten() {
                let found = entry.file_name().to_string_lossy().into_owned();
                ensure!(!found.contains(&mark), "{place}/{found}");
            }
        }
    }
    Ok(())
}

async fn a_paused_sandbox_stays_paused(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    put(&sandbox, &at_home(&sandbox, "file"), b"kept").await?;
    sandbox.pause().await?;
    let checkpoint = sandbox.checkpoint_files().await?;
    let answer = tokio::time::timeout(Duration::from_millis(300), output(&sandbox, "true")).await;
    ensure!(answer.is_err(), "it runs again");
    same!(output(&f.node.fork(&checkpoint).await?, "cat file").await?, "kept", "the copy");
    sandbox.resume().await?;
    same!(output(&sandbox, "cat file").await?, "kept", "afterwards");
    Ok(())
}

/// Two files that are written in turn are never further apart than that, however
/// much lies between them.
async fn a_copy_is_of_one_moment(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "mkdir a z; for n in $(seq 300); do echo $n > m$n; done; i=0
        while :; do
            for dir in a z; do echo $i > new; mv new $dir/count; done
            [ $i = 1 ] && echo ready; i=$((i + 1))
        done";
    let mut call = sandbox.start(&Command::shell(script)).await?;
    crate::verbs::until_printed(&mut call, "ready").await?;
    for _ in 0..5 {
        let copy = f.node.fork(&sandbox.checkpoint_files().await?).await?;
        let both = output(&copy, "cat a/count z/count").await?;
        let counts: Vec<u64> = both.lines().filter_map(|line| line.parse().ok()).collect();
        let [first, second] = counts[..] else { bail!("{both:?}") };
        ensure!(first == second || first == second + 1, "{first} and {second}");
    }
    call.kill();
    Ok(())
}

async fn files_of_a_warm_sandbox_stand_alone(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.warm(|_| {}).await?;
    let context = sandbox.context(f.python()?).await?;
    context.execute("x = 5; open('file', 'w').write('kept')", None).await;
    let checkpoint = sandbox.checkpoint_files().await?;
    ensure!(checkpoint.is_files_only(), "it holds interpreters");
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("kept");
    checkpoint.save(&path).await?;
    let whole = sandbox.checkpoint().await?;
    ensure!(!whole.is_files_only(), "the interpreter is missing");
    ensure!(matches!(whole.save(&path).await, Err(SaveError::HasInterpreters)), "it was saved");
    let loaded = Checkpoint::load(&path, checkpoint.spec().clone()).await?;
    let copy = f.warm_node()?.fork(&loaded).await?;
    same!(output(&copy, "cat file").await?, "kept", "the file");
    ensure!(copy.contexts().is_empty(), "it has contexts");
    // Its interpreters still come from the zygote.
    let fresh = copy.context(f.python()?).await?;
    same!(fresh.facts().origin, Origin::Forked, "a new context");
    let mut limits = sandbox.limits().clone();
    limits.memory_bytes = 384 * MIB;
    let smaller = f.warm_node()?.fork_with(&whole, &limits).await?;
    same!(smaller.limits().memory_bytes, 384 * MIB, "the memory");
    same!(smaller.contexts().len(), 1, "contexts of the whole");
    Ok(())
}

/// The zygote forks into a sandbox while that is being built; when that fails,
/// both must go.
async fn a_warm_root_that_cannot_be_built_is_refused(f: &Fixture) -> anyhow::Result<()> {
    let template = f.warm_template()?;
    let mut warmth = belljar_warmed::warmth(template)?;
    warmth.code = String::new();
    let target = Path::new("/nonexistent/deep").to_owned();
    warmth.root.binds.push(Bind::of_host("/usr", target));
    let bad = Spec { root: warmth.root.clone(), ..f.spec() };
    let good = Spec { root: template.root.clone(), ..f.spec() };
    let node = f.another_node().await?;
    node.warm_up(warmth, None).await?;
    let (groups, spawner) = {
        let sandbox = node.create(&good).await?;
        let groups = groups_of_engine(sandbox.pid());
        ensure!(!groups.is_empty(), "no cgroup of the engine");
        let spawner = OwnEngines::find(&f.state, sandbox.pid())?.spawner();
        sandbox.destroy().await?;
        (groups, spawner)
    };
    // The zygote stays; nothing else may.
    let below = || {
        let groups = groups.iter().map(|dir| directories_below(dir)).sum::<usize>();
        (groups, descendants(spawner).len())
    };
    let before = below();
    for _ in 0..3 {
        let made = tokio::time::timeout(patience(f), node.create(&bad)).await;
        match made.context("it does not answer")? {
            Err(NodeError::Start(_)) => {}
            other => bail!("a bind that cannot be made: {:?}", other.err()),
        }
        let next = node.create(&good).await?;
        same!(output(&next, "echo alive").await?, "alive\n", "the next");
        next.destroy().await?;
    }
    crate::verbs::until(
        "nothing left",
        patience(f),
        async || Ok((below() == before).then_some(())),
    )
    .await
    .with_context(|| format!("(cgroups, processes): {before:?} before, {:?} now", below()))?;
    node.stop().await;
    Ok(())
}
