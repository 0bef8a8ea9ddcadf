//! What is on the hosts, beside what should be.

use std::collections::BTreeMap;

use super::Found;
use crate::evidence::Evidence;

/// I3. No cgroup, process, mount or file of a sandbox that the books do not have
/// there.
pub(super) fn all_reaped(evidence: &Evidence) -> Found {
    let books = evidence.books.as_ref().ok_or("nobody read the books")?;
    if evidence.hosts.is_empty() {
        return Err("nobody looked at a host");
    }
    let mut wrong = Vec::new();
    for host in &evidence.hosts {
        let open = books.rows.iter().filter(|row| row.is_open());
        let open = open.filter(|row| host.number.is_none() || row.node == host.number).count();
        if host.live.len() > open {
            wrong.push(format!(
                "{} sandboxes live on {}, and the books have {open}: {:?}",
                host.live.len(),
                host.name,
                host.live
            ));
        }
        wrong.extend(host.empty.iter().map(|id| format!("{}: an empty cgroup {id}", host.name)));
        wrong.extend(host.rubbish.iter().map(|what| format!("{}: {what}", host.name)));
    }
    Ok(wrong)
}

/// I6. A sandbox is on one node; nothing is on a node that the books have
/// elsewhere, or as ended; a node that was given up has nothing.
pub(super) fn one_owner(evidence: &Evidence) -> Found {
    let books = evidence.books.as_ref().ok_or("nobody read the books")?;
    let rosters: Vec<_> = evidence.hosts.iter().filter(|host| host.roster.is_some()).collect();
    if rosters.is_empty() {
        return Err("no node was asked what it has");
    }
    let mut wrong = Vec::new();
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for host in rosters {
        for id in host.roster.iter().flatten() {
            owners.entry(id).or_default().push(&host.name);
            match books.row(id) {
                None => wrong.push(format!("{} has {id}, which is on no book", host.name)),
                Some(row) if !row.is_open() => {
                    wrong.push(format!("{} has {id}, which has ended", host.name));
                }
                Some(row) if host.number.is_some() && row.node != host.number => {
                    wrong.push(format!("{} has {id}, which is on {:?}", host.name, row.node));
                }
                Some(_) => {}
            }
        }
    }
    for (id, names) in owners {
        if names.len() > 1 {
            wrong.push(format!("{id} lives on {names:?}"));
        }
    }
    for node in books.nodes.iter().filter(|node| node.state == "lost") {
        let on = books.rows.iter().filter(|row| row.node == Some(node.number) && row.is_open());
        for row in on {
            wrong.push(format!("{} is open on {}, which is lost", row.id, node.name));
        }
        let host = evidence.hosts.iter().find(|host| host.number == Some(node.number));
        if host.is_some_and(|host| !host.live.is_empty()) {
            wrong.push(format!("{} was given up, and code runs there", node.name));
        }
    }
    Ok(wrong)
}

/// I8. Whatever runs in a sandbox has every wall around it.
pub(super) fn no_half_jailed(evidence: &Evidence) -> Found {
    let all: Vec<_> = evidence.hosts.iter().flat_map(|host| &host.inhabitants).collect();
    if all.is_empty() {
        return Err("no process of a sandbox was looked at");
    }
    let mut wrong = Vec::new();
    for one in all {
        let who = format!("process {} of {}", one.pid, one.sandbox);
        if !one.shared.is_empty() {
            wrong.push(format!("{who} shares {:?} with the host", one.shared));
        }
        if !one.has_filter {
            wrong.push(format!("{who} has no seccomp filter"));
        }
        if !one.has_no_new_privileges {
            wrong.push(format!("{who} could gain privileges"));
        }
        if one.is_root {
            wrong.push(format!("{who} is the host's root"));
        }
    }
    Ok(wrong)
}
