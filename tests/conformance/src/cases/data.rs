//! Datasets: files of the host that a sandbox is shown.
//!
//! Requirements: S14

use std::fs;
use std::io::Write as _;

use anyhow::{Context as _, bail, ensure};
use belljar_domain::limits::MIB;
use belljar_domain::{Spec, User};
use belljar_engine::StartError;
use belljar_node::{Command, NodeError, Sandbox};
use belljar_objects::{Digest, Kept, Shelf};
use tempfile::TempDir;

use crate::features::Feature;
use crate::fixture::Fixture;
use crate::verbs::{errno, interactive, output, output_of, run, until_printed};
use crate::{cases, same};

cases!["data":
    a_dataset_is_read_as_it_is needs [ShowsFiles],
    nobody_inside_changes_a_dataset needs [ShowsFiles, RootUser],
    a_dataset_is_not_run needs [ShowsFiles, X86],
    datasets_take_no_room needs [ShowsFiles, SizedDisk],
    no_path_of_the_host_shows_in_mounts needs [ShowsFiles],
    locks_inside_are_not_the_hosts needs [ShowsFiles, Python],
    what_is_not_what_it_was_is_not_shown needs [ShowsFiles],
    copies_are_shown_the_same needs [ShowsFiles, CopiesFiles],
    forked_interpreters_are_shown_the_same needs [ShowsFiles, Warm],
    tiers_that_show_nothing_say_so,
];

/// A shelf of the host's.
struct Host {
    dir: TempDir,
    shelf: Shelf,
}

impl Host {
    fn new() -> anyhow::Result<Self> {
        let dir = tempfile::tempdir().context("make a directory for a shelf")?;
        let shelf = Shelf::new(dir.path().join("shelf"));
        Ok(Self { dir, shelf })
    }

    fn put(&self, bytes: &[u8]) -> anyhow::Result<Kept> {
        let fresh = self.shelf.fresh()?;
        fresh.as_file().write_all(bytes)?;
        Ok(self.shelf.take(fresh)?)
    }

    fn show(&self, spec: &mut Spec, files: &[(&str, Digest)]) -> anyhow::Result<()> {
        let files: Vec<_> = files.iter().map(|(name, it)| ((*name).to_owned(), *it)).collect();
        spec.data = self.shelf.show(&files)?;
        Ok(())
    }
}

async fn shown(f: &Fixture, host: &Host, files: &[(&str, Digest)]) -> anyhow::Result<Sandbox> {
    let mut spec = f.spec();
    host.show(&mut spec, files)?;
    f.node.create(&spec).await.context("make a sandbox")
}

async fn a_dataset_is_read_as_it_is(f: &Fixture) -> anyhow::Result<()> {
    let host = Host::new()?;
    let one = host.put(b"x\n1\n")?.digest;
    let large: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
    let other = host.put(&large)?.digest;
    let files = [("a b.csv", one), ("\u{fc}.bin", other), ("again.csv", one)];
    let sandbox = shown(f, &host, &files).await?;
    same!(output(&sandbox, "ls /mnt/data").await?, "a b.csv\nagain.csv\n\u{fc}.bin\n", "names");
    same!(
        output(&sandbox, "cd /mnt/data; cat 'a b.csv' again.csv").await?,
        "x\n1\nx\n1\n",
        "texts"
    );
    let found = output(&sandbox, "sha256sum < /mnt/data/\u{fc}.bin").await?;
    same!(found.split(' ').next(), Some(&*other.to_string()), "the digest inside");
    let mut bytes = Vec::new();
    sandbox.download(User::User, b"/mnt/data/again.csv", 100, &mut bytes).await?;
    same!(bytes, b"x\n1\n", "as it comes out");
    Ok(())
}

/// Each of these has to fail, for the user and for root alike.
const CHANGES: [&str; 14] = [
    "echo x >> a.csv",
    ": > a.csv",
    "rm -f a.csv",
    "mv a.csv b.csv",
    "ln a.csv /mnt/b.csv || ln a.csv b.csv",
    "chmod u+w a.csv",
    "touch a.csv",
    "echo x > new.csv",
    "mkdir new",
    "cd /; rmdir /mnt/data",
    "cd /; mv /mnt/data /mnt/away",
    "mount -o remount,bind,rw /mnt/data/a.csv",
    "umount /mnt/data/a.csv || umount -l /mnt/data",
    "mount -t tmpfs none /mnt/data",
];

async fn nobody_inside_changes_a_dataset(f: &Fixture) -> anyhow::Result<()> {
    let host = Host::new()?;
    let kept = host.put(b"x\n1\n")?;
    let sandbox = shown(f, &host, &[("a.csv", kept.digest)]).await?;
    for user in [User::User, User::Root] {
        for change in CHANGES {
            let mut command = Command::shell(&format!("cd /mnt/data && {{ {change}; }}"));
            command.user = user;
            let ended = sandbox.execute(&command).await?.end;
            ensure!(ended.status() != 0, "{user:?} could `{change}`");
        }
        let mut look = Command::shell("cat /mnt/data/a.csv; ls /mnt/data");
        look.user = user;
        same!(output_of(&sandbox, &look).await?, "x\n1\na.csv\n", "after it all");
        let upload = sandbox.upload(user, b"/mnt/data/a.csv", 0o644, &mut &b"y"[..]).await;
        ensure!(upload.is_err(), "{user:?} could put a file there");
    }
    same!(fs::read(&kept.path)?, b"x\n1\n", "the host's file");
    // Nothing about it has changed either.
    same!(host.shelf.find(&kept.digest)?.identity, kept.identity, "the host's file");
    Ok(())
}

async fn a_dataset_is_not_run(f: &Fixture) -> anyhow::Result<()> {
    let host = Host::new()?;
    let program = host.put(&fs::read("/bin/true")?)?.digest;
    let sandbox = shown(f, &host, &[("true", program)]).await?;
    let loader = "/lib64/ld-linux-x86-64.so.2";
    same!(run(&sandbox, "/mnt/data/true").await?.end.status(), 126, "run by its name");
    let loaded = run(&sandbox, &format!("{loader} /mnt/data/true")).await?;
    ensure!(loaded.end.status() != 0, "it was run by the loader");
    // The loader is there, and runs what may be run.
    output(&sandbox, &format!("cp /mnt/data/true t; {loader} ./t")).await?;
    Ok(())
}

async fn datasets_take_no_room(f: &Fixture) -> anyhow::Result<()> {
    let host = Host::new()?;
    let bytes = usize::try_from(48 * MIB)?;
    let kept = host.put(&vec![b'x'; bytes])?;
    let mut spec = f.spec();
    spec.limits.disk_bytes = 8 * MIB;
    host.show(&mut spec, &[("large.txt", kept.digest)])?;
    let sandbox = f.node.create(&spec).await?;
    same!(output(&sandbox, "wc -c < /mnt/data/large.txt").await?.trim(), bytes.to_string(), "size");
    let used = sandbox.usage().disk_used_bytes.context("nobody counts files")?;
    ensure!(used < MIB, "{used} bytes of the disk are used");
    output(&sandbox, "head -c 6000000 /dev/zero > rest").await?;
    Ok(())
}

async fn no_path_of_the_host_shows_in_mounts(f: &Fixture) -> anyhow::Result<()> {
    let host = Host::new()?;
    let kept = host.put(b"x\n1\n")?;
    let sandbox = shown(f, &host, &[("a.csv", kept.digest)]).await?;
    let mounts = output(&sandbox, "cat /proc/self/mountinfo").await?;
    ensure!(mounts.contains("/mnt/data/a.csv"), "{mounts}");
    let name = host.dir.path().file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ensure!(!name.is_empty() && !mounts.contains(name), "{name} is in {mounts}");
    ensure!(!mounts.contains("shelf"), "{mounts}");
    Ok(())
}

/// Who holds a lock inside keeps nobody on the host waiting.
async fn locks_inside_are_not_the_hosts(f: &Fixture) -> anyhow::Result<()> {
    let host = Host::new()?;
    let kept = host.put(b"x\n1\n")?;
    let sandbox = shown(f, &host, &[("a.csv", kept.digest)]).await?;
    let lock = "import fcntl; f = open('/mnt/data/a.csv'); fcntl.flock(f, fcntl.LOCK_EX); \
                print('locked', flush=True); input()";
    let mut call = sandbox.start(&interactive(&format!("python3 -c \"{lock}\""))).await?;
    until_printed(&mut call, "locked").await?;
    let file = fs::File::open(&kept.path)?;
    let operation = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    rustix::fs::flock(&file, operation).context("lock the host's file")?;
    call.kill();
    Ok(())
}

async fn what_is_not_what_it_was_is_not_shown(f: &Fixture) -> anyhow::Result<()> {
    let host = Host::new()?;
    let kept = host.put(b"x\n1\n")?;
    let mut spec = f.spec();
    host.show(&mut spec, &[("a.csv", kept.digest)])?;
    // The same bytes, in another file.
    fs::remove_file(&kept.path)?;
    fs::write(&kept.path, "x\n1\n")?;
    match f.node.create(&spec).await {
        Err(NodeError::Start(StartError::Step { doing, source })) => {
            ensure!(doing.contains("`a.csv`, which is not what it was"), "{doing}");
            same!(source.raw_os_error(), Some(errno::ESTALE), "the error");
        }
        other => bail!("{other:?}"),
    }
    fs::remove_file(&kept.path)?;
    std::os::unix::fs::symlink("/etc/passwd", &kept.path)?;
    ensure!(f.node.create(&spec).await.is_err(), "a link was shown");
    Ok(())
}

async fn copies_are_shown_the_same(f: &Fixture) -> anyhow::Result<()> {
    let host = Host::new()?;
    let kept = host.put(b"x\n1\n")?;
    let sandbox = shown(f, &host, &[("a.csv", kept.digest)]).await?;
    output(&sandbox, "echo own > own").await?;
    let checkpoint = sandbox.checkpoint_files().await?;
    let copy = f.node.fork(&checkpoint).await?;
    same!(output(&copy, "cat /mnt/data/a.csv own").await?, "x\n1\nown\n", "in the copy");
    ensure!(run(&copy, "echo x >> /mnt/data/a.csv").await?.end.status() != 0, "it was changed");
    if f.has(Feature::Pause).is_ok() {
        sandbox.pause().await?;
        sandbox.resume().await?;
        same!(output(&sandbox, "cat /mnt/data/a.csv").await?, "x\n1\n", "after a pause");
    }
    Ok(())
}

async fn forked_interpreters_are_shown_the_same(f: &Fixture) -> anyhow::Result<()> {
    let host = Host::new()?;
    let kept = host.put(b"x\n1\n")?;
    let mut spec = f.warm_spec()?;
    host.show(&mut spec, &[("a.csv", kept.digest)])?;
    let sandbox = f.warm_node()?.create(&spec).await?;
    let context = sandbox.context(f.python()?).await?;
    let read = "text = open('/mnt/data/a.csv').read()";
    ensure!(context.execute(read, None).await.end.ok, "the first cannot read it");
    let copy = f.warm_node()?.fork(&sandbox.checkpoint().await?).await?;
    let again = copy.contexts().pop().context("the copy has no context")?;
    let look = "assert open('/mnt/data/a.csv').read() == text == 'x\\n1\\n'";
    let ran = again.execute(look, None).await;
    ensure!(ran.end.ok, "the copy cannot: {:?}", ran.error);
    Ok(())
}

async fn tiers_that_show_nothing_say_so(f: &Fixture) -> anyhow::Result<()> {
    let host = Host::new()?;
    let kept = host.put(b"x\n1\n")?;
    let mut spec = f.spec();
    host.show(&mut spec, &[("a.csv", kept.digest)])?;
    match f.node.create(&spec).await {
        Ok(_) => ensure!(f.tier.shows_files(), "it was made all the same"),
        Err(NodeError::Start(StartError::Unsupported { .. })) => {
            ensure!(!f.tier.shows_files(), "this tier does show files");
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
