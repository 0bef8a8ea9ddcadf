//! The rights of root inside a sandbox, by profile.
//!
//! Requirements: S16

use anyhow::{Context as _, ensure};
use belljar_domain::{SecurityProfile, Spec, User};
use belljar_node::{Command, Creator, PoolSize, Sandbox};

use crate::fixture::Fixture;
use crate::verbs::{get, output, output_of, patience, put, python, refused, until};
use crate::{cases, same};

cases!["profiles":
    root_has_the_capabilities_of_the_profile needs [RootUser],
    root_acts_for_other_users_with_full_only needs [RootUser, Python],
    rights_end_when_root_becomes_another_user needs [RootUser, Python],
    no_program_gains_rights needs [RootUser, Python],
    files_are_moved_with_the_rights_of_root needs [RootUser],
    what_root_makes_for_a_user_belongs_to_that_user needs [RootUser],
    a_fork_has_the_profile_of_its_original_or_a_narrower_one needs [RootUser, CopiesFiles],
    a_sandbox_that_waited_has_the_profile_that_is_asked_for needs [RootUser, Warm],
    a_return_from_disk_only_takes_rights_away needs [RootUser, Saves],
];

use SecurityProfile::{Full, Strict};

/// CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE: written out here,
/// so that no other can come in by a change of the constant.
const FULL: u64 = 0x4fb;

async fn with(f: &Fixture, profile: SecurityProfile) -> anyhow::Result<Sandbox> {
    let spec = Spec { profile, ..f.spec() };
    f.node.create(&spec).await.context("make a sandbox")
}

fn as_root(mut command: Command) -> Command {
    command.user = User::Root;
    command
}

/// Capabilities of a process by the name of the set.
async fn capabilities(sandbox: &Sandbox, command: Command, set: &str) -> anyhow::Result<u64> {
    let text = output_of(sandbox, &command).await?;
    let line = text.lines().find_map(|line| line.strip_prefix(set)?.strip_prefix(":\t"));
    let line = line.with_context(|| format!("no {set} in {text:?}"))?;
    Ok(u64::from_str_radix(line.trim(), 16)?)
}

fn status() -> Command {
    Command::new(["/bin/cat", "/proc/self/status"])
}

async fn root_has_the_capabilities_of_the_profile(f: &Fixture) -> anyhow::Result<()> {
    for (profile, want) in [(Strict, 0), (Full, FULL)] {
        let sandbox = with(f, profile).await?;
        for set in ["CapPrm", "CapEff", "CapBnd"] {
            let of_root = capabilities(&sandbox, as_root(status()), set).await?;
            same!(of_root, want, "{set} of root, {profile}");
        }
        for set in ["CapPrm", "CapEff", "CapInh"] {
            same!(capabilities(&sandbox, status(), set).await?, 0, "{set} of user, {profile}");
        }
    }
    Ok(())
}

/// Acts of package managers and services, each alone.
const ACTS: [(&str, &str); 6] = [
    ("write into the home of a user", "open('/home/user/closed/new', 'w').close()"),
    ("give a file away", "open('/tmp/own', 'w').close(); os.chown('/tmp/own', 1234, 1234)"),
    ("change the mode of another's file", "os.chmod('/home/user/closed/file', 0o640)"),
    ("signal a process of another user", "os.kill(int(open('/tmp/pid').read()), 0)"),
    ("become another user", "os.setgroups([5]); os.setgid(1234); os.setuid(1234)"),
    ("listen on a low port", "import socket; socket.socket().bind(('127.0.0.1', 81))"),
];

async fn root_acts_for_other_users_with_full_only(f: &Fixture) -> anyhow::Result<()> {
    for profile in [Strict, Full] {
        let sandbox = with(f, profile).await?;
        output(&sandbox, "mkdir -m 700 closed; echo x > closed/file").await?;
        let script = "echo $$ > /tmp/pid; exec sleep 600";
        let call = sandbox.start(&Command::shell(script)).await?;
        until("the process is there", patience(f), async || {
            Ok(get(&sandbox, b"/tmp/pid").await.is_ok_and(|pid| !pid.is_empty()).then_some(()))
        })
        .await?;
        for (what, act) in ACTS {
            let act = as_root(python(&format!("import os; {act}")));
            let ended = sandbox.execute(&act).await?;
            let succeeded = ended.end.status() == 0;
            // gVisor lets every user listen on low ports.
            let is_open = what.contains("port") && !f.tier.shares_kernel();
            let wanted = profile == Full || is_open && succeeded;
            same!(succeeded, wanted, "{profile}: {what}: {}", ended.stderr.text());
        }
        call.kill();
    }
    Ok(())
}

async fn rights_end_when_root_becomes_another_user(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = with(f, Full).await?;
    let become_user = "import os; os.setgroups([]); os.setgid(1000); os.setuid(1000); \
        os.execv('/bin/cat', ['cat', '/proc/self/status'])";
    for set in ["CapPrm", "CapEff"] {
        let left = capabilities(&sandbox, as_root(python(become_user)), set).await?;
        same!(left, 0, "{set} after the change of user");
    }
    let back = "import os; os.setgroups([]); os.setgid(1000); os.setuid(1000); os.setuid(0)";
    let ended = sandbox.execute(&as_root(python(back))).await?;
    ensure!(ended.end.status() != 0, "it became root again");
    Ok(())
}

/// Set-user-id programs of root are plain programs.
async fn no_program_gains_rights(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = with(f, Full).await?;
    let plant = "cp /bin/cat /tmp/cat && chown 0:0 /tmp/cat && chmod 6755 /tmp/cat";
    output_of(&sandbox, &as_root(Command::shell(plant))).await?;
    let cat = || Command::new(["/tmp/cat", "/proc/self/status"]);
    for set in ["CapPrm", "CapEff"] {
        same!(capabilities(&sandbox, cat(), set).await?, 0, "{set} of a set-user-id program");
    }
    let ids = output_of(&sandbox, &cat()).await?;
    ensure!(ids.contains("Uid:\t1000\t1000\t1000"), "its user changed: {ids}");
    Ok(())
}

async fn files_are_moved_with_the_rights_of_root(f: &Fixture) -> anyhow::Result<()> {
    for profile in [Strict, Full] {
        let sandbox = with(f, profile).await?;
        output(&sandbox, "mkdir -m 700 closed; echo own > closed/file").await?;
        let path = b"/home/user/closed/file";
        let mut bytes = Vec::new();
        let read = sandbox.download(User::Root, path, 100, &mut bytes).await;
        let made = sandbox.make_dir(User::Root, b"/home/user/closed/made").await;
        let removed = sandbox.remove(User::Root, path).await;
        match profile {
            Full => {
                read?;
                same!(bytes, b"own\n", "what root reads");
                made?;
                removed?;
                let owner = output(&sandbox, "stat -c %u closed/made; ls closed").await?;
                same!(owner, "0\nmade\n", "what root made");
                // Afterwards the guest has no more rights than before.
                put(&sandbox, b"/home/user/closed/users", b"x").await?;
                let owner = output(&sandbox, "stat -c %u closed/users").await?;
                same!(owner, "1000\n", "the owner of what the user made");
            }
            Strict => {
                refused(read, "read", &[])?;
                ensure!(made.is_err() && removed.is_err(), "strict: root changed the directory");
            }
        }
    }
    Ok(())
}

async fn what_root_makes_for_a_user_belongs_to_that_user(f: &Fixture) -> anyhow::Result<()> {
    let creator = Creator { user: User::Root, owner: User::User };
    for profile in [Strict, Full] {
        let sandbox = with(f, profile).await?;
        let made = sandbox.make_dir_with(creator, b"/etc/apart/deep").await;
        let again = sandbox.make_new_dir(creator, b"/etc/apart/deep/new").await;
        let mut source = &b"text"[..];
        let written =
            sandbox.upload_with(creator, b"/etc/other/file", 0o640, &[], &mut source).await;
        if profile == Strict {
            let is_refused = made.is_err() && again.is_err() && written.is_err();
            ensure!(is_refused, "strict: root gave a file away");
            continue;
        }
        made?;
        again?;
        written?;
        let script = "cd /etc; cat other/file; \
            stat -c '%u %g %a' . apart apart/deep apart/deep/new other other/file";
        let owners = output(&sandbox, script).await?;
        let own = "1000 1000 755\n";
        let want = format!("text0 0 755\n{own}{own}{own}{own}1000 1000 640\n");
        same!(owners, want, "owners and modes");
        put(&sandbox, b"/etc/apart/deep/users", b"x").await?;
    }
    Ok(())
}

async fn a_fork_has_the_profile_of_its_original_or_a_narrower_one(
    f: &Fixture,
) -> anyhow::Result<()> {
    for (profile, want) in [(Strict, 0), (Full, FULL)] {
        let sandbox = with(f, profile).await?;
        let checkpoint = sandbox.checkpoint().await?;
        let fork = f.node.fork(&checkpoint).await?;
        let of_root = capabilities(&fork, as_root(status()), "CapEff").await?;
        same!(of_root, want, "root of a fork, {profile}");
        for (asked, want) in [(Strict, 0), (Full, want)] {
            let fork = f.node.fork_confined(&checkpoint, asked).await?;
            let of_root = capabilities(&fork, as_root(status()), "CapEff").await?;
            same!(of_root, want, "root of a fork, {profile} as {asked}");
        }
    }
    Ok(())
}

async fn a_sandbox_that_waited_has_the_profile_that_is_asked_for(
    f: &Fixture,
) -> anyhow::Result<()> {
    let node = f.another_node().await?;
    let template = f.warm_template()?;
    let spec = f.warm_spec()?;
    let size = PoolSize { least: 2, ..PoolSize::default() };
    node.warm_up(belljar_warmed::warmth(template)?, Some((size, spec.limits.clone()))).await?;
    let hits = || node.pools().iter().map(|(_, figures)| figures.hits).sum::<u64>();
    for (count, (profile, want)) in (1..).zip([(Full, FULL), (Strict, 0), (Full, FULL)]) {
        until("a sandbox waits", patience(f), async || {
            let waiting = node.pools().iter().any(|(_, figures)| figures.waiting > 0);
            Ok(waiting.then_some(()))
        })
        .await?;
        let sandbox = node.create(&Spec { profile, ..spec.clone() }).await?;
        same!(hits(), count, "claims of a sandbox that waited");
        for set in ["CapPrm", "CapEff", "CapBnd"] {
            let of_root = capabilities(&sandbox, as_root(status()), set).await?;
            same!(of_root, want, "{set} of root, {profile}");
        }
        sandbox.destroy().await?;
    }
    node.stop().await;
    Ok(())
}

async fn a_return_from_disk_only_takes_rights_away(f: &Fixture) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    for (profile, saved) in [(Full, "full"), (Strict, "strict")] {
        let sandbox = with(f, profile).await?;
        output(&sandbox, "echo alive").await?;
        sandbox.suspend(&dir.path().join(saved)).await?;
    }
    let back = async |saved: &str, profile| {
        let spec = Spec { profile, ..f.spec() };
        f.node.resume_from(&dir.path().join(saved), spec).await
    };
    for (saved, profile, want) in [("full", Full, FULL), ("full", Strict, 0), ("strict", Strict, 0)]
    {
        let sandbox = back(saved, profile).await?;
        for set in ["CapPrm", "CapEff"] {
            let of_root = capabilities(&sandbox, as_root(status()), set).await?;
            same!(of_root, want, "{set} of root, {saved} as {profile}");
        }
    }
    ensure!(back("strict", Full).await.is_err(), "one with the profile strict came back with full");
    Ok(())
}
