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
        let mut times = vec![];
        for i in 0..n {
            let t = std::time::Instant::now();
            let sb = match node.create(&spec).await {
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
            let f = sb.execute(&Command::shell(&cmd)).await;
            let t2 = t.elapsed();
            sb.destroy().await.unwrap();
            let t3 = t.elapsed();
            times.push(t3);
            if i == 0 {
                match f {
                    Ok(f) => println!("{:?}\n{}\n{}", f.end, f.stdout.text(), f.stderr.text()),
                    Err(e) => println!("{e} {:?}", std::error::Error::source(&e)),
                }
                println!("{t1:?} {t2:?} {t3:?}");
            }
        }
        times.sort();
        println!("p50 {:?} min {:?} max {:?}", times[n / 2], times[0], times[n - 1]);
    });
}
