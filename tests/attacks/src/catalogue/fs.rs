//! FS: paths, files, archives and their transfer.
//!
//! Where the defence is that the guest does it, inside and as the sandbox's user, the control
//! is a mutant: the host does the same itself (`harness::on_host`), and the act must work.

mod changing;
mod layers;
mod names;
mod owned;
mod paths;
mod shown;

use belljar_domain::limits::MIB;
use belljar_domain::{EndReason, Owners, User};
use belljar_node::Defence::{Landlock, Rlimits, Seccomp, SizedDisk};

use crate::attack::{Act, Attack, Control, Run, Seen, verdict};
use crate::harness::findings::Findings;
use crate::harness::on_host::Resolved;
use crate::harness::stage::Stage;

pub(crate) fn attacks() -> Vec<Attack> {
    let driven = |id, act: fn(Stage) -> Run, control| Attack::new(id, Act::Driven(act), control);
    // A device 0:0 needs no rights on a plain tmpfs: that it is an overlay's
    // whiteout is for the filter and Landlock to know.
    let no_nodes = Control::Without(&[Seccomp, Landlock]);
    vec![
        driven(
            "FS-01",
            |stage| Box::pin(paths::hostile(stage, User::User)),
            Control::Own(|stage| Box::pin(paths::hostile(stage, User::Root))),
        ),
        driven(
            "FS-02",
            |stage| Box::pin(paths::symlinks(stage, paths::Decoy::No)),
            Control::Own(|stage| Box::pin(paths::symlinks(stage, paths::Decoy::Yes))),
        ),
        driven(
            "FS-03",
            |stage| Box::pin(changing::swapped(stage, Resolved::Inside)),
            Control::Own(|stage| Box::pin(changing::swapped(stage, Resolved::OnHost))),
        ),
        driven(
            "FS-04",
            |stage| Box::pin(paths::magic(stage, Resolved::Inside)),
            Control::Own(|stage| Box::pin(paths::magic(stage, Resolved::OnHost))),
        ),
        driven(
            "FS-05",
            |stage| Box::pin(paths::no_files(stage, paths::Reader::No)),
            Control::Own(|stage| Box::pin(paths::no_files(stage, paths::Reader::Yes))),
        ),
        driven(
            "FS-06",
            |stage| Box::pin(changing::under_the_reader(stage, Resolved::Inside)),
            Control::Own(|stage| Box::pin(changing::under_the_reader(stage, Resolved::OnHost))),
        ),
        driven(
            "FS-07",
            |stage| Box::pin(layers::clean_up(stage)),
            Control::Own(|stage| Box::pin(layers::walking_clean_up(stage))),
        ),
        driven(
            "FS-08",
            |stage| Box::pin(layers::unpacked(stage, layers::Base::Owned)),
            Control::Own(|stage| Box::pin(layers::unpacked(stage, layers::Base::Open))),
        ),
        driven(
            "FS-09",
            |stage| Box::pin(layers::hidden_members(stage, Resolved::Inside)),
            Control::Own(|stage| Box::pin(layers::hidden_members(stage, Resolved::OnHost))),
        ),
        driven("FS-10", |stage| Box::pin(bombs(stage)), Control::Without(&[SizedDisk, Rlimits])),
        driven(
            "FS-11",
            |stage| Box::pin(names::listed(stage, names::Names::Bytes)),
            Control::Own(|stage| Box::pin(names::listed(stage, names::Names::Text))),
        ),
        driven(
            "FS-12",
            |stage| Box::pin(layers::base(stage)),
            Control::Own(|stage| Box::pin(layers::writable_base(stage))),
        ),
        driven("FS-13", |stage| Box::pin(layers::whiteouts(stage)), no_nodes),
        driven(
            "FS-14",
            |stage| Box::pin(layers::held_open(stage, layers::Holders::Killed)),
            Control::Own(|stage| Box::pin(layers::held_open(stage, layers::Holders::WaitedFor))),
        ),
        driven(
            "FS-15",
            |stage| Box::pin(names::as_keys(stage, names::Names::Bytes)),
            Control::Own(|stage| Box::pin(names::as_keys(stage, names::Names::Text))),
        ),
        driven(
            "FS-16",
            |stage| Box::pin(names::to_run(stage, Resolved::Inside)),
            Control::Own(|stage| Box::pin(names::to_run(stage, Resolved::OnHost))),
        ),
        driven(
            "FS-17",
            |stage| Box::pin(changing::uploads(stage, changing::InPlace::No)),
            Control::Own(|stage| Box::pin(changing::uploads(stage, changing::InPlace::Yes))),
        ),
        driven(
            "FS-18",
            |stage| Box::pin(layers::former(stage, layers::Destroyed::Yes)),
            Control::Own(|stage| Box::pin(layers::former(stage, layers::Destroyed::No))),
        ),
        driven(
            "FS-19",
            |stage| Box::pin(changing::paused(stage, 0)),
            Control::Own(|stage| Box::pin(changing::paused(stage, 1))),
        ),
        driven("FS-20", |stage| Box::pin(layers::special(stage)), no_nodes),
        driven(
            "FS-21",
            |stage| Box::pin(shown::swapped(stage, shown::Bound::ByIdentity)),
            Control::Own(|stage| Box::pin(shown::swapped(stage, shown::Bound::ByName))),
        ),
        driven(
            "FS-22",
            |stage| Box::pin(owned::by_root(stage, Owners::Host)),
            Control::Own(|stage| Box::pin(owned::by_root(stage, Owners::Sandbox))),
        ),
    ]
}

async fn bombs(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for mode in ["gzip", "zip", "overlap", "entries", "nested", "lzma"] {
        let sandbox = stage
            .sandbox(|spec| {
                spec.limits.disk_bytes = 32 * MIB;
                spec.limits.inodes = 4096;
                spec.limits.memory_bytes = 1024 * MIB;
            })
            .await?;
        let ran = stage.run(&sandbox, "fs/fs_10.py", &[mode]).await?;
        if ran.end.reason == EndReason::Disk {
            findings.held(format!("{mode} ended for its disk"));
        } else {
            findings.add(verdict(&ran)?);
        }
        if findings.is_breached() {
            break;
        }
    }
    Ok(findings.seen())
}
