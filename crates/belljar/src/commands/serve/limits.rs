//! The largest limits that clients may choose: flags, and a file.

use anyhow::Context as _;
use belljar_domain::MaxLimits;
use belljar_domain::units::parse_size;

use super::file::File;
use crate::cli::{Hosting, cores};
use crate::output::Hint as _;

/// A flag wins over the file, the file over the default.
pub(super) fn read(options: &Hosting, file: &File) -> anyhow::Result<MaxLimits> {
    let usual = MaxLimits::default();
    let size = |key: &'static str, text: &Option<String>| {
        text.as_deref().map(parse_size).transpose().context(key)
    };
    let cpus = file.max_cpus.map(cores).transpose().map_err(anyhow::Error::msg);
    let max = MaxLimits {
        memory_bytes: options
            .max_memory
            .or(size("max_memory", &file.max_memory)?)
            .unwrap_or(usual.memory_bytes),
        cpu_millis: options.max_cpus.or(cpus.context("max_cpus")?).unwrap_or(usual.cpu_millis),
        pids: options.max_pids.or(file.max_pids).unwrap_or(usual.pids),
        disk_bytes: options
            .max_disk
            .or(size("max_disk", &file.max_disk)?)
            .unwrap_or(usual.disk_bytes),
    };
    max.check().context("the maximum of a limit is out of range").hint(
        "see the flags --max-memory, --max-cpus, --max-disk and --max-pids; they bound what \
         clients choose, not the operator's templates",
    )?;
    Ok(max)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn limits(flags: &[&str]) -> anyhow::Result<MaxLimits> {
        let line = ["belljar", "serve"].iter().chain(flags);
        let Command::Serve(serve) = Cli::try_parse_from(line)?.command else { panic!() };
        read(&serve.hosting, &File::read(&serve.hosting)?)
    }

    fn of_file(text: &str, flags: &[&str]) -> anyhow::Result<MaxLimits> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        let config = ["--config", file.path().to_str().unwrap()];
        limits(&[&config[..], flags].concat())
    }

    #[test]
    fn a_flag_wins_over_the_file_and_that_over_the_default() {
        assert_eq!(limits(&[]).unwrap(), MaxLimits::default());
        let text = "max_memory = \"2G\"\nmax_cpus = 1.5\nmax_disk = \"1G\"\nmax_pids = 64\n";
        let of_text =
            MaxLimits { memory_bytes: 2 << 30, cpu_millis: 1500, pids: 64, disk_bytes: 1 << 30 };
        assert_eq!(of_file(text, &[]).unwrap(), of_text);
        assert_eq!(of_file("max_cpus = 2", &[]).unwrap().cpu_millis, 2000);
        let flags = ["--max-memory", "512M", "--max-cpus", "3", "--max-disk", "64M"];
        let flags = [&flags[..], &["--max-pids", "32"]].concat();
        let of_flags =
            MaxLimits { memory_bytes: 512 << 20, cpu_millis: 3000, pids: 32, disk_bytes: 64 << 20 };
        assert_eq!(of_file(text, &flags).unwrap(), of_flags);
        assert_eq!(limits(&flags).unwrap(), of_flags);
    }

    #[test]
    fn a_maximum_that_leaves_nothing_to_choose_is_refused() {
        for flags in [["--max-memory", "0"], ["--max-cpus", "0"], ["--max-pids", "1"]] {
            assert!(limits(&flags).is_err(), "{flags:?}");
        }
        for text in [
            "max_memory = 2",
            "max_memory = \"much\"",
            "max_disk = \"-1\"",
            "max_cpus = -1",
            "max_cpus = nan",
            "max_pids = 100001",
        ] {
            assert!(of_file(text, &[]).is_err(), "{text}");
        }
    }
}
