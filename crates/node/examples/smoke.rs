use belljar_model::*;
use belljar_node::*;
fn main() {
    hook();
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    rt.block_on(async {
        let node = Node::start(None).await.unwrap();
        let root = RootFs {
            layers: vec![std::env::args().nth(1).unwrap().into()],
            binds: vec![Bind { source: "/usr".into(), target: "/usr".into() }],
        };
        let spec = Spec::new(Tier::Jail, root);
        let n: usize = std::env::args().nth(2).unwrap().parse().unwrap();
        let cmd = std::env::args().nth(3).unwrap();
        let weak = match std::env::args().nth(4).as_deref() {
            Some("seccomp") => Weakened::without(Defence::Seccomp),
            Some("net") => Weakened::without(Defence::NetNamespace),
            Some("landlock") => Weakened::without(Defence::Landlock),
            Some("dev") => Weakened::without(Defence::MinimalDev),
            Some("ipc") => Weakened::without(Defence::IpcNamespace),
            Some("keyring") => Weakened::without(Defence::Keyring),
            _ => Weakened::default(),
        };
        let mut times = vec![];
        let (mut a, mut b, mut c) = (vec![], vec![], vec![]);
        for i in 0..n {
            let t = std::time::Instant::now();
            let sb = match node.create_weakened(&spec, &weak).await {
                Ok(s) => s,
                Err(e) => {
                    let mut e: &dyn std::error::Error = &e;
                    loop {
                        eprintln!("{e}");
                        match e.source() {
                            Some(s) => e = s,
                            None => break,
                        }
                    }
                    return;
                }
            };
            let t1 = t.elapsed();
            let f = sb
                .execute(
                    &(if cmd == "-" { Command::new(["/bin/true"]) } else { Command::shell(&cmd) }),
                )
                .await;
            let t2 = t.elapsed();
            sb.destroy().await.unwrap();
            let t3 = t.elapsed();
            times.push(t3);
            a.push(t1);
            b.push(t2 - t1);
            c.push(t3 - t2);
            if i == 0 {
                match f {
                    Ok(f) => println!("{:?}\n{}\n{}", f.end, f.stdout.text(), f.stderr.text()),
                    Err(e) => println!("{e} {:?}", std::error::Error::source(&e)),
                }
                println!("{t1:?} {t2:?} {t3:?}");
            }
        }
        times.sort();
        a.sort();
        b.sort();
        c.sort();
        println!("create {:?} exec {:?} destroy {:?}", a[n / 2], b[n / 2], c[n / 2]);
        println!("p50 {:?} min {:?} max {:?}", times[n / 2], times[0], times[n - 1]);
    });
}
