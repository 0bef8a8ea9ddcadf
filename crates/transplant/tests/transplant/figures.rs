//! Prints how long copies take. Run by hand, optimised:
//!
//! ```text
//! cargo test --release -p belljar-transplant -- --ignored --nocapture figures
//! ```
//!
//! `ZYGOTE` names another Python, with arguments; `ZYGOTE_IMPORTS` what it
//! imports; `ZYGOTE_DATA` the statement that makes 200 MB.

use std::time::{Duration, Instant};

use belljar_transplant::{Image, Limits, capture, implant};

use crate::zygote::{Context, Walls, Zygote};

fn variable(name: &str, otherwise: &str) -> Vec<String> {
    let text = std::env::var(name).unwrap_or_else(|_| otherwise.to_owned());
    text.split_whitespace().map(str::to_owned).collect()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let value = work();
    (value, begun.elapsed())
}

fn take(zygote: &Zygote, parent: &Context, previous: Option<&Image>) -> (Image, Duration) {
    parent.wait();
    timed(|| capture(&parent.process, &zygote.reference, previous, &Limits::default()).unwrap())
}

#[test]
#[ignore = "prints figures; judges none"]
fn figures() {
    let command = variable("ZYGOTE", "python3");
    let imports = variable("ZYGOTE_IMPORTS", "json ctypes");
    let modules: Vec<&str> = imports.iter().map(String::as_str).collect();
    let data = std::env::var("ZYGOTE_DATA").unwrap_or_else(|_| {
        "data = bytearray(200 << 20); data[:] = bytes(range(256)) * (len(data) >> 8)".to_owned()
    });
    let zygote = Zygote::start_with(&command, &modules);
    let mut firsts = Vec::new();
    for _ in 0..5 {
        let parent = zygote.context(Walls::None);
        assert_eq!(parent.run(&data), "");
        let (image, time) = take(&zygote, &parent, None);
        firsts.push(time);
        println!("first capture: {time:?}, {} MiB taken", image.taken_bytes() >> 20);
    }
    println!("first capture, p50: {:?}", median(firsts));

    let parent = zygote.context(Walls::None);
    parent.run(&data);
    let mut image = take(&zygote, &parent, None).0;
    let mut later = Vec::new();
    for round in 0..20 {
        parent.run(&format!("note = [{round}] * 1000"));
        let (next, time) = take(&zygote, &parent, Some(&image));
        image = next;
        later.push(time);
    }
    println!("later capture, p50: {:?}, {} KiB taken", median(later), image.taken_bytes() >> 10);

    let (mut implants, mut wholes, mut keep) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..20 {
        let child = zygote.context(Walls::Namespaces);
        parent.run(&format!("note = {round}"));
        parent.wait();
        let begun = Instant::now();
        let (next, _) = take(&zygote, &parent, Some(&image));
        image = next;
        let ((), time) = timed(|| implant(&image, &child.process, &zygote.reference).unwrap());
        assert_eq!(child.run("note"), round.to_string());
        wholes.push(begun.elapsed());
        implants.push(time);
        keep.push(child);
    }
    println!("implant, p50: {:?}", median(implants));
    println!("capture, implant and first answer, p50: {:?}", median(wholes));
    drop(keep);

    let waiting: Vec<Context> = (0..8).map(|_| zygote.context(Walls::Namespaces)).collect();
    let ((), eight) = timed(|| {
        for child in &waiting {
            implant(&image, &child.process, &zygote.reference).unwrap();
        }
        for child in &waiting {
            assert_eq!(child.run("note"), "19");
        }
    });
    println!("eight children answer after: {eight:?}");
    let all = "hash(bytes(data)) if isinstance(data, bytearray) else float(data.sum().sum())";
    let (value, read) = timed(|| waiting[0].run(all));
    println!("a child reads all its data in: {read:?}");
    assert_eq!(value, parent.run(all));
}
