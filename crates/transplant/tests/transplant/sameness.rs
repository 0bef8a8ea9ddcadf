//! That a copy is one, byte by byte.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::zygote::{Context, Walls, Zygote};

type Areas = Vec<(u64, u64, String)>;

/// Start, end and protection of everything but the kernel's own mappings;
/// neighbours of one protection count as one.
fn areas(context: &Context) -> Areas {
    let path = format!("/proc/{}/maps", context.process.pid().as_raw_nonzero());
    let mut areas: Areas = Vec::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.last().is_some_and(|name| name.starts_with("[v")) {
            continue;
        }
        let (start, end) = words[0].split_once('-').unwrap();
        let start = u64::from_str_radix(start, 16).unwrap();
        let end = u64::from_str_radix(end, 16).unwrap();
        match areas.last_mut() {
            Some(last) if last.1 == start && last.2 == words[1] => last.1 = end,
            _ => areas.push((start, end, words[1].to_owned())),
        }
    }
    areas
}

/// How many bytes differ, and how many there are.
fn differing(one: &Context, two: &Context, areas: &Areas) -> (usize, usize) {
    let open = |context: &Context| {
        File::open(format!("/proc/{}/mem", context.process.pid().as_raw_nonzero())).unwrap()
    };
    let (one, two) = (open(one), open(two));
    let (mut differ, mut total) = (0, 0);
    for &(start, end, _) in areas {
        for address in (start..end).step_by(4096) {
            let (mut left, mut right) = ([0u8; 4096], [0u8; 4096]);
            let read =
                (one.read_exact_at(&mut left, address), two.read_exact_at(&mut right, address));
            assert_eq!(read.0.is_ok(), read.1.is_ok(), "at {address:#x}");
            differ += left.iter().zip(&right).filter(|(left, right)| left != right).count();
            total += left.len();
        }
    }
    (differ, total)
}

#[test]
fn a_copy_has_the_same_memory() {
    let Some(zygote) = Zygote::start() else { return };
    let parent = zygote.context(Walls::Namespaces);
    parent.run("import decimal, random, sqlite3, xml.dom.minidom, asyncio, email, unittest");
    parent.run("data = [random.random() for _ in range(300000)]; text = {str(x): x for x in data}");
    parent.run("blocks = [bytes([n % 256]) * 70000 for n in range(500)]; del blocks[::3]");
    let mut image = zygote.capture(&parent, None);
    for round in 0..4 {
        parent.run("random.shuffle(data); del blocks[::7]; blocks.append(bytearray(1 << 20))");
        image = zygote.capture(&parent, Some(&image));
        let child = zygote.context(Walls::Namespaces);
        // One that was used before has other things to undo.
        child.run(&format!("junk = [bytes(n) for n in range(5000 * {round})]; import decimal"));
        child.wait();
        belljar_transplant::implant(&image, &child.process, &zygote.reference).unwrap();
        child.wait();
        parent.wait();
        assert_eq!(areas(&parent), areas(&child));
        let (differ, total) = differing(&parent, &child, &areas(&parent));
        println!("{differ} of {total} bytes differ");
        // The number of the thread, the processor it is on, and, where the C
        // library keeps one, the state of its random generator.
        assert!(differ < 512, "{differ} bytes differ");
        assert!(total > 50 << 20);
    }
}
