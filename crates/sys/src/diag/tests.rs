use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::process::pidfd_send_signal;

use super::*;
use crate::net;
use crate::process::{Forked, Namespaces, fork};

fn inode_of(stream: &TcpStream) -> u32 {
    u32::try_from(rustix::fs::fstat(stream).unwrap().st_ino).unwrap()
}

#[test]
fn a_socket_is_found_by_its_two_ends_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let clients: Vec<_> = (0..50).map(|_| TcpStream::connect(at).unwrap()).collect();
    let socket = open().unwrap();
    for client in &clients {
        let found = find(&socket, client.local_addr().unwrap(), at).unwrap().unwrap();
        assert_eq!(found.inode, inode_of(client));
        assert_eq!(found.uid, rustix::process::geteuid().as_raw());
    }
    // The ends the other way round are the other socket, or here nobody's.
    let (accepted, peer) = listener.accept().unwrap();
    assert_eq!(find(&socket, at, peer).unwrap().unwrap().inode, inode_of(&accepted));
    assert_eq!(find(&socket, "127.0.0.1:1".parse().unwrap(), at).unwrap(), None);
    assert!(find(&socket, at, "[::1]:1".parse().unwrap()).is_err());
}

/// The quickest of many: what else the machine does is no part of it. Looking through
/// all sockets takes longer than this, the more the more there are.
#[test]
fn asking_is_quicker_than_looking_through_all_sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let client = TcpStream::connect(at).unwrap();
    let (socket, local) = (open().unwrap(), client.local_addr().unwrap());
    let others: Vec<_> = (0..100).map(|_| TcpStream::connect(at).unwrap()).collect();
    let (mut asked, mut looked) = (Duration::MAX, Duration::MAX);
    for _ in 0..200 {
        let start = Instant::now();
        find(&socket, local, at).unwrap().unwrap();
        asked = asked.min(start.elapsed());
        let start = Instant::now();
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        looked = looked.min(start.elapsed());
        assert!(table.lines().count() > others.len());
    }
    assert!(asked < looked, "{asked:?}, and {looked:?} for all");
}

#[test]
fn the_cgroup_is_that_of_the_maker() {
    let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
        .into_iter()
        .find(|root| std::path::Path::new(root).join("cgroup.procs").exists());
    let (Some(root), true) = (root, rustix::process::geteuid().is_root()) else { return };
    let dir = std::path::Path::new(root).join(format!("belljar-diag-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec 3<>/dev/tcp/127.0.0.1/{} && cat <&3",
        dir.display(),
        at.port()
    );
    let child = std::process::Command::new("bash").args(["-c", &script]).spawn();
    let mut child = child.unwrap();
    let (accepted, peer) = listener.accept().unwrap();
    let found = find(open().unwrap(), peer, at).unwrap().unwrap();
    let id = std::fs::metadata(&dir).unwrap().ino();
    drop(accepted);
    child.wait().unwrap();
    std::fs::remove_dir(&dir).unwrap();
    assert_eq!(found.cgroup, id);
}

/// A child in a network namespace of its own, which lives until it is killed.
fn hermit() -> (rustix::process::Pid, OwnedFd) {
    let (mut ours, mut theirs) = io::pipe().unwrap();
    let Forked::Parent { pid, pidfd } = fork(Namespaces::NET, None).unwrap() else {
        let up = net::loopback_up().is_ok();
        let _ = theirs.write_all(&[u8::from(up)]);
        loop {
            // SAFETY: pause takes nothing; the child has one thread.
            unsafe { libc::pause() };
        }
    };
    let mut up = [0u8];
    ours.read_exact(&mut up).unwrap();
    assert_eq!(up, [1]);
    (pid, pidfd)
}

#[test]
fn a_door_is_made_in_another_namespace() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (pid, pidfd) = hermit();
    // Only this thread moves, so a test with others beside it is no worse off.
    let home = net::own_namespace().unwrap();
    let door = net::door_into(pidfd.as_fd(), home.as_fd(), 3128).unwrap();
    assert!(net::is_same_namespace(net::own_namespace().unwrap(), &home).unwrap());
    let taken = net::door_into(pidfd.as_fd(), home.as_fd(), 3128).unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    assert!(net::is_same_namespace(net::own_namespace().unwrap(), &home).unwrap());
    // Not here: whoever connects on this side finds nobody.
    let listener = TcpListener::from(door.listener);
    let at = listener.local_addr().unwrap();
    assert_eq!(at, "127.0.0.1:3128".parse().unwrap());
    // There: a client that is made inside reaches it, and is found inside only.
    net_of(
        &pidfd,
        || TcpStream::connect(at).unwrap(),
        |client| {
            listener.set_nonblocking(false).unwrap();
            let (_, peer) = listener.accept().unwrap();
            let found = find(&door.diagnosis, peer, at).unwrap().unwrap();
            assert_eq!(found.inode, inode_of(&client));
            assert_eq!(find(open().unwrap(), peer, at).unwrap(), None);
        },
    );
    pidfd_send_signal(&pidfd, rustix::process::Signal::KILL).unwrap();
    rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap();
}

/// Makes something in another namespace and looks at it in this one.
fn net_of<T: Send>(target: &OwnedFd, make: impl FnOnce() -> T + Send, look: impl FnOnce(T)) {
    let made = std::thread::scope(|scope| {
        let made = scope.spawn(|| {
            crate::enter::enter(target.as_fd(), Namespaces::NET).unwrap();
            make()
        });
        made.join().unwrap()
    });
    look(made);
}

#[test]
fn broken_answers_are_no_sockets() {
    assert!(read(&[0; 4]).is_err());
    let mut short = [0u8; HEADER + 8];
    short[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    assert!(read(&short).is_err());
    assert_eq!(cgroup(&[3, 0, 21, 0]), 0);
    assert_eq!(cgroup(&[200, 0, 21, 0, 1]), 0);
}
