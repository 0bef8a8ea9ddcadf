//! A database that is reached over TLS, and only if it is the right one.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::Place;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a certificate for `localhost` by an authority of its own.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start(place: &Place) -> Self {
        let port = belljar_testkit::free_port().unwrap();
        let dir = place.path().join("postgres");
        std::fs::create_dir(&dir).unwrap();
        place.run(&["tls", "init", "--domain", "localhost", "--data", "."]).expect_status(0);
        for (from, to) in [("server.pem", "server.crt"), ("server.key", "server.key")] {
            std::fs::copy(place.path().join("tls").join(from), dir.join(to)).unwrap();
        }
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(place.path(), open).unwrap();
        let own = Command::new("chown").args(["-R", "postgres:postgres"]).arg(&dir).status();
        assert!(own.unwrap().success());
        let data = dir.join("data");
        let init = ["--no-sync", "--auth=trust", "--username=belljar", "--pgdata"];
        let made = as_postgres("initdb").args(init).arg(&data).current_dir(&dir).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let rules = "hostssl all all 127.0.0.0/8 trust\nhostnossl all all all reject\n";
        std::fs::write(data.join("pg_hba.conf"), rules).unwrap();
        let mut command = as_postgres("postgres");
        command.arg("-D").arg(&data).arg("-k").arg(&dir).args(["-p", &port.to_string()]);
        for setting in ["listen_addresses=127.0.0.1,127.0.0.2", "fsync=off", "ssl=on"] {
            command.args(["-c", setting]);
        }
        for (setting, file) in [("ssl_cert_file", "server.crt"), ("ssl_key_file", "server.key")] {
            command.args(["-c", &format!("{setting}={}", dir.join(file).display())]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.current_dir(&dir).spawn().unwrap();
        let server = Self { process, port };
        server.wait();
        server
    }

    fn wait(&self) {
        let began = Instant::now();
        let is_ready = || {
            let port = self.port.to_string();
            let mut ready = Command::new(program("pg_isready"));
            ready.args(["--quiet", "--host=127.0.0.1", "--port", &port]).status().unwrap().success()
        };
        while !is_ready() {
            assert!(began.elapsed() < PATIENCE, "the server does not answer");
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn program(name: &str) -> PathBuf {
    belljar_testkit::programs().unwrap().join(name)
}

fn as_postgres(name: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--pdeathsig=KILL"]);
    command.arg("--").arg(program(name));
    command
}

#[test]
fn the_database_is_reached_over_tls_and_only_if_it_is_the_right_one() {
    if !crate::harness::can_jail() {
        return;
    }
    let place = Place::new();
    let server = Server::start(&place);
    let url = |host: &str, rest: &str| {
        format!("postgres://belljar@{host}:{}/postgres?{rest}", server.port)
    };
    let ask = |url: &str| place.run(&["admin", "--database", url, "migrate"]);
    let authority = place.path().join("tls/ca.pem");
    let known = format!("sslmode=verify-full&sslrootcert={}", authority.display());
    ask(&url("localhost", &known)).expect_status(0);
    ask(&url("localhost", "sslmode=require")).expect_status(0);
    // Nobody vouches for it; its certificate is for others; it is not asked over TLS.
    ask(&url("localhost", "sslmode=verify-full"))
        .expect_status(1)
        .expect_words(&["cannot reach the database"]);
    ask(&url("127.0.0.2", &known)).expect_status(1);
    ask(&url("localhost", "sslmode=disable")).expect_status(1);
}
