//! The texts of the files, as proc(5) describes them.
//!
//! A file keeps its length when its numbers change, so that one write replaces all of it.

use std::fmt::Write as _;
use std::time::Duration;

use super::Use;

/// Ticks of a second in `/proc/stat`: `USER_HZ`, the same on every architecture of ours.
const TICKS: u64 = 100;

/// Everything that the files tell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Snapshot {
    pub(super) memory_bytes: u64,
    pub(super) processors: u32,
    pub(super) uptime: Duration,
    /// When the clock of `uptime` began, in seconds since 1970.
    pub(super) booted: u64,
    pub(super) used: Use,
    pub(super) load: [f64; 3],
}

impl Snapshot {
    /// The files that are written again while code runs.
    pub(super) fn changing(&self) -> [(&'static str, String); 4] {
        [
            ("meminfo", self.meminfo()),
            ("stat", self.stat()),
            ("uptime", self.uptime()),
            ("loadavg", self.loadavg()),
        ]
    }

    fn meminfo(&self) -> String {
        let used = self.used.memory_bytes.unwrap_or(0).min(self.memory_bytes);
        let cached = self.used.cache_bytes.unwrap_or(0).min(used);
        let free = self.memory_bytes - used;
        let rows = [
            ("MemTotal", self.memory_bytes),
            ("MemFree", free),
            ("MemAvailable", free + cached),
            ("Buffers", 0),
            ("Cached", cached),
            ("SwapCached", 0),
            ("Active", used - cached),
            ("Inactive", cached),
            ("SwapTotal", 0),
            ("SwapFree", 0),
            ("Dirty", 0),
            ("Writeback", 0),
            ("AnonPages", used - cached),
            ("Mapped", 0),
            ("Shmem", 0),
            ("Slab", 0),
            ("SReclaimable", 0),
            ("SUnreclaim", 0),
        ];
        let row = |(name, bytes): (&str, u64)| {
            format!("{:<15} {:>14} kB\n", format!("{name}:"), bytes / 1024)
        };
        rows.into_iter().map(row).collect()
    }

    /// Says nothing about the model: that is the host's.
    pub(super) fn cpuinfo(&self) -> String {
        let mut text = String::new();
        let count = self.processors;
        for number in 0..count {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "processor\t: {number}\nmodel name\t: virtual CPU\nphysical id\t: 0\n\
                 siblings\t: {count}\ncore id\t\t: {number}\ncpu cores\t: {count}\n\n"
            );
        }
        text
    }

    /// The kernel tells a sandbox's CPU time as one sum; it stands in the column of users, and
    /// every processor had an equal share of it.
    fn stat(&self) -> String {
        let count = u64::from(self.processors);
        let all = ticks(self.uptime) * count;
        let busy = ticks(self.used.cpu.unwrap_or_default()).min(all);
        let line = |name: &str, busy: u64, idle: u64| {
            format!("{name} {busy:>16} 0 0 {idle:>16} 0 0 0 0 0 0\n")
        };
        let mut text = line("cpu ", busy, all - busy);
        for number in 0..count {
            text += &line(&format!("cpu{number}"), busy / count, (all - busy) / count);
        }
        let tasks = self.used.tasks.unwrap_or(1);
        let _ = write!(
            text,
            "intr 0\nctxt 0\nbtime {}\nprocesses {tasks:>12}\nprocs_running 1\nprocs_blocked 0\n\
             softirq 0 0 0 0 0 0 0 0 0 0 0\n",
            self.booted
        );
        text
    }

    fn uptime(&self) -> String {
        let busy = self.used.cpu.unwrap_or_default();
        let idle = (self.uptime * self.processors).saturating_sub(busy);
        let text = format!("{:.2} {:.2}", self.uptime.as_secs_f64(), idle.as_secs_f64());
        format!("{text:<47}\n")
    }

    fn loadavg(&self) -> String {
        let [one, five, fifteen] = self.load;
        let tasks = self.used.tasks.unwrap_or(1);
        let text = format!("{one:.2} {five:.2} {fifteen:.2} 1/{tasks} {tasks}");
        format!("{text:<47}\n")
    }
}

fn ticks(time: Duration) -> u64 {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    millis / (1000 / TICKS)
}

/// The averages over 1, 5 and 15 minutes after `busy` processors worked for `span`.
pub(super) fn decayed(load: [f64; 3], busy: f64, span: Duration) -> [f64; 3] {
    let minutes = [1.0, 5.0, 15.0];
    std::array::from_fn(|index| {
        let kept = (-span.as_secs_f64() / (60.0 * minutes[index])).exp();
        load[index] * kept + busy * (1.0 - kept)
    })
}

/// The first number of an `uptime` of ours.
pub(super) fn uptime_of(text: &str) -> Option<Duration> {
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The `btime` of a `stat` of ours.
pub(super) fn booted_of(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn snapshot(used: Use, uptime: u64) -> Snapshot {
        Snapshot {
            memory_bytes: 256 * MIB,
            processors: 2,
            uptime: Duration::from_secs(uptime),
            booted: 1_700_000_000,
            used,
            load: [0.5, 0.25, 0.0],
        }
    }

    fn busy() -> Use {
        Use {
            memory_bytes: Some(100 * MIB),
            cache_bytes: Some(20 * MIB),
            cpu: Some(Duration::from_secs(3)),
            tasks: Some(7),
        }
    }

    #[test]
    fn memory_is_the_limit_and_what_is_left_of_it() {
        let text = snapshot(busy(), 10).meminfo();
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim_start_matches(':').split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        assert_eq!(of("MemTotal"), 256 * 1024);
        assert_eq!(of("MemFree"), 156 * 1024);
        assert_eq!(of("MemAvailable"), 176 * 1024);
        assert_eq!(of("Cached"), 20 * 1024);
    }

    #[test]
    fn processors_share_the_time() {
        let text = snapshot(busy(), 10).stat();
        let fields = |line: usize| -> Vec<String> {
            text.lines().nth(line).unwrap().split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(fields(0)[..5], ["cpu", "300", "0", "0", "1700"]);
        assert_eq!(fields(2)[..5], ["cpu1", "150", "0", "0", "850"]);
        assert_eq!(booted_of(&text), Some(1_700_000_000));
    }

    #[test]
    fn uptime_is_read_back() {
        let text = snapshot(busy(), 10).uptime();
        assert_eq!(text.trim_end(), "10.00 17.00");
        assert_eq!(uptime_of(&text), Some(Duration::from_secs(10)));
    }

    #[test]
    fn files_keep_their_length() {
        let lengths = |snapshot: Snapshot| snapshot.changing().map(|(_, text)| text.len());
        let early = lengths(snapshot(Use::default(), 0));
        assert_eq!(lengths(snapshot(busy(), 40_000_000)), early);
    }

    #[test]
    fn load_comes_near_what_is_busy() {
        let mut load = [0.0; 3];
        for _ in 0..120 {
            load = decayed(load, 1.0, Duration::from_secs(1));
        }
        assert!(load[0] > 0.8 && load[0] < 1.0, "{load:?}");
        assert!(load[2] < 0.2, "{load:?}");
    }
}
