//! nginx as a plain proxy to the same upstream, set up to do this well.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};

/// One that was started; it ends with this.
#[derive(Debug)]
pub(super) struct Nginx {
    pub(super) address: SocketAddr,
    pub(super) pid: u32,
    pub(super) version: String,
    child: Child,
    _dir: tempfile::TempDir,
}

const START: Duration = Duration::from_secs(10);

/// As many workers as the gateway has. Connections on both sides are kept, a
/// body stays in memory, nothing of an answer is held back, nothing is logged.
fn settings(dir: &Path, listen: SocketAddr, upstream: SocketAddr) -> String {
    let dir = dir.display();
    format!(
        "daemon off;\nworker_processes 2;\npid {dir}/pid;\nerror_log {dir}/error.log crit;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n\
         access_log off;\n\
         client_body_temp_path {dir}/body;\nproxy_temp_path {dir}/proxy;\n\
         fastcgi_temp_path {dir}/fastcgi;\nuwsgi_temp_path {dir}/uwsgi;\n\
         scgi_temp_path {dir}/scgi;\n\
         client_body_buffer_size 256k;\nclient_max_body_size 32m;\n\
         keepalive_requests 100000000;\n\
         upstream model {{ server {upstream}; keepalive 256; keepalive_requests 100000000; }}\n\
         server {{\nlisten {listen} backlog=4096;\n\
         location / {{\nproxy_pass http://model;\nproxy_http_version 1.1;\n\
         proxy_set_header Connection \"\";\nproxy_buffering off;\n}}\n}}\n}}\n"
    )
}

impl Nginx {
    /// `None`: it is not installed.
    pub(super) fn start(program: &Path, upstream: SocketAddr) -> anyhow::Result<Option<Self>> {
        let Ok(asked) = Command::new(program).arg("-v").output() else { return Ok(None) };
        let version = String::from_utf8_lossy(&asked.stderr).trim().to_owned();
        let version = version.rsplit(' ').next().unwrap_or_default().to_owned();
        let dir = tempfile::tempdir().context("cannot make a directory")?;
        // A port that was free a moment ago.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let config = dir.path().join("nginx.conf");
        std::fs::write(&config, settings(dir.path(), address, upstream))?;
        let child = Command::new(program)
            .arg("-p")
            .arg(dir.path())
            .arg("-c")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start nginx")?;
        let mut nginx = Self { address, pid: child.id(), version, child, _dir: dir };
        nginx.wait()?;
        Ok(Some(nginx))
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        let begin = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            if begin.elapsed() > START || self.child.try_wait()?.is_some() {
                bail!("nginx does not start");
            }
            super::pause(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers end when it says so, which it does not when it is killed.
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}
