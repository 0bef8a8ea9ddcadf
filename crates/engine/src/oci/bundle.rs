//! What a container is to be, as the runtime reads it: `config.json`.
//!
//! A pure function of the spec and of where things are. Nothing in it is of a
//! tenant's choice: no hook, no annotation, no variable, no path of the template.

use std::path::Path;

use belljar_domain::{Bind, Runtime, SecurityProfile, Spec};
use serde_json::{Value, json};

use crate::defence::{Defence, Weakened};
use crate::jail::mounts::container::{TEMPORARY, bind_name};
use crate::jail::mounts::{ROOT, SHARED_MEMORY};
use crate::jail::parent::IDS;
use crate::plan::{Facts, GUEST_UID};

/// Where the host keeps what the container is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ground<'a> {
    /// The scratch, as the runtime sees it.
    pub(crate) base: &'a Path,
    /// What all containers share.
    pub(crate) shared: &'a Path,
    /// The host's id of the container's root.
    pub(crate) first_uid: u32,
    /// The sandbox's group, below the root of each hierarchy.
    pub(crate) group: &'a Path,
}

/// Where the guest finds what it needs.
const OWN: &str = "/.belljar";

/// Capabilities with which the guest starts calls as other users and signals them; and with
/// which it reduces its bounding set, before it starts anything.
const GUEST_NEEDS: [&str; 4] = ["CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_SETPCAP"];

/// Capabilities that it needs inside gVisor besides, until it has mounted its groups and made
/// itself a user with fewer: gVisor's kernel alone answers to these.
const BOOT_NEEDS: [&str; 2] = ["CAP_CHOWN", "CAP_SYS_ADMIN"];

/// Capabilities that calls of root have with the profile `full`, those of the guest aside:
/// [`belljar_confine::rights::ROOT`] by name.
const ROOT_HAS: [&str; 5] =
    ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_NET_BIND_SERVICE"];

fn capabilities(spec: &Spec, gvisor: bool) -> Vec<&'static str> {
    let mut names = GUEST_NEEDS.to_vec();
    if gvisor {
        names.extend(BOOT_NEEDS);
    }
    if spec.profile == SecurityProfile::Full {
        names.extend(ROOT_HAS.into_iter().filter(|name| !gvisor || !BOOT_NEEDS.contains(name)));
    }
    names
}

pub(crate) fn config(
    spec: &Spec,
    runtime: Runtime,
    facts: Facts,
    weakened: &Weakened,
    ground: Ground<'_>,
) -> Value {
    let gvisor = runtime == Runtime::Runsc;
    let map = json!([{ "containerID": 0, "hostID": ground.first_uid, "size": IDS }]);
    let namespaces = ["user", "mount", "pid", "network", "ipc", "uts", "cgroup"];
    // gVisor's kernel has cgroups of its own, and the host's are never seen.
    let namespaces = namespaces.into_iter().filter(|name| !gvisor || *name != "cgroup");
    let mut linux = json!({
        "namespaces": namespaces.map(|name| json!({ "type": name })).collect::<Vec<_>>(),
        "uidMappings": map,
        "gidMappings": map,
    });
    if runtime == Runtime::Runc {
        // It makes a group whatever it is told, so it is told where. Below the
        // sandbox's, which must not hold processes itself in version 2.
        linux["cgroupsPath"] = json!(ground.group.join("r"));
        linux["resources"] = json!({ "devices": [{ "allow": false, "access": "rwm" }] });
    }
    json!({
        "ociVersion": "1.0.2",
        "hostname": "sandbox",
        "root": { "path": ground.base.join(ROOT), "readonly": false },
        "process": process(spec, gvisor, facts, weakened),
        "mounts": mounts(spec, gvisor, weakened, ground),
        "linux": linux,
    })
}

fn process(spec: &Spec, gvisor: bool, facts: Facts, weakened: &Weakened) -> Value {
    let guest = format!("{OWN}/guest");
    let abi = if weakened.keeps(Defence::Landlock) { facts.landlock_abi } else { 0 };
    let args = if gvisor {
        vec![guest, "gvisor".to_owned()]
    } else {
        let mut args = vec![guest, "oci".to_owned(), abi.to_string()];
        if spec.disk.place().is_some() {
            // Template builds install where they like.
            args.push("build".to_owned());
        }
        args
    };
    let keeps = capabilities(spec, gvisor);
    let id = if gvisor { 0 } else { GUEST_UID };
    json!({
        "terminal": false,
        "user": { "uid": id, "gid": id },
        "args": args,
        // Without this, crun looks into the template's list of users.
        "env": ["HOME=/"],
        "cwd": "/",
        "capabilities": {
            "bounding": keeps,
            "effective": keeps,
            "permitted": keeps,
            "inheritable": keeps,
            "ambient": if gvisor { Vec::new() } else { keeps.clone() },
        },
        "noNewPrivileges": weakened.keeps(Defence::NoNewPrivs),
    })
}

fn mounts(spec: &Spec, gvisor: bool, weakened: &Weakened, ground: Ground<'_>) -> Vec<Value> {
    let mount = |destination: &str, kind: &str, source: &Path, options: &[&str]| json!({ "destination": destination, "type": kind, "source": source, "options": options });
    let hidden = !gvisor && weakened.keeps(Defence::ProcHiding);
    let mut proc = vec!["nosuid", "nodev", "noexec"];
    if hidden {
        proc.extend(["hidepid=2", "subset=pid"]);
    }
    if !gvisor && weakened.keeps(Defence::ReadOnlyProc) {
        proc.push("ro");
    }
    let own = ground.shared.join("own");
    let mut list = vec![mount("/proc", "proc", Path::new("proc"), &proc)];
    for (index, Bind { target, .. }) in spec.root.binds.iter().enumerate() {
        let source = ground.base.join(bind_name(index));
        list.push(mount(&target.to_string_lossy(), "bind", &source, &READ_ONLY));
    }
    list.push(mount(OWN, "bind", &own, &READ_ONLY));
    let shared = ground.base.join(SHARED_MEMORY);
    if gvisor {
        list.push(mount("/dev/shm", "bind", &shared, &APART));
        // Where a runtime sees none, gVisor puts one that no disk limit knows.
        let temporary = ground.base.join(TEMPORARY);
        list.push(mount("/tmp", "bind", &temporary, &["bind", "nosuid", "nodev"]));
        return list;
    }
    let devices = ground.shared.join("dev");
    list.push(mount("/dev", "bind", &devices, &["bind", "ro", "nosuid", "noexec"]));
    let terminals = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "max=64"];
    list.push(mount("/dev/pts", "devpts", Path::new("devpts"), &terminals));
    list.push(mount("/dev/shm", "bind", &shared, &APART));
    list
}

const READ_ONLY: [&str; 4] = ["bind", "ro", "nosuid", "nodev"];
const APART: [&str; 4] = ["bind", "nosuid", "nodev", "noexec"];

#[cfg(test)]
mod tests;
