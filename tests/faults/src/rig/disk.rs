//! A small file system of its own, that can be filled.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::record::Kind;
use super::{Rig, open_up, run, try_run};

#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) place: PathBuf,
}

impl Disk {
    /// `inodes`: as many files as it can hold; none: the usual.
    pub(crate) fn make(
        rig: &Rig,
        name: &str,
        megabytes: u32,
        inodes: Option<u32>,
    ) -> anyhow::Result<Self> {
        let image = rig.dir.join(format!("{name}.img"));
        File::create(&image)?.set_len(u64::from(megabytes) << 20)?;
        let text = image.display().to_string();
        let inodes = inodes.map(|inodes| inodes.to_string());
        let mut words = vec!["-q", "-m", "0", "-F"];
        if let Some(inodes) = &inodes {
            words.extend(["-N", inodes]);
        }
        words.push(&text);
        run("mkfs.ext4", &words)?;
        let place = rig.dir.join(name);
        std::fs::create_dir_all(&place)?;
        rig.record.note(Kind::Mount, &place.display().to_string())?;
        run("mount", &["-o", "loop", &text, &place.display().to_string()])?;
        open_up(&place)?;
        Ok(Self { place })
    }

    fn ballast(&self) -> PathBuf {
        self.place.join("ballast")
    }

    /// Leaves no block free.
    pub(crate) fn fill(&self) -> anyhow::Result<u64> {
        use std::io::Write as _;
        let mut file = File::create(self.ballast())?;
        let (mut written, mut size) = (0_u64, 1_usize << 20);
        let block = vec![0x5a_u8; size];
        while size >= 512 {
            match file.write(&block[..size]) {
                Ok(count) if count > 0 => written += count as u64,
                _ => size /= 2,
            }
        }
        let _ = file.sync_all();
        Ok(written)
    }

    /// Leaves no file to be made.
    pub(crate) fn fill_inodes(&self) -> anyhow::Result<u64> {
        let dir = self.ballast();
        std::fs::create_dir_all(&dir)?;
        for number in 0_u64.. {
            if File::create(dir.join(number.to_string())).is_err() {
                return Ok(number);
            }
        }
        Ok(0)
    }

    pub(crate) fn free(&self) -> anyhow::Result<()> {
        let ballast = self.ballast();
        if ballast.is_dir() {
            return Ok(std::fs::remove_dir_all(ballast)?);
        }
        Ok(std::fs::remove_file(ballast)?)
    }

    /// As after an error that the kernel could not hide: read-only, at once. What
    /// was written before has had the time to get there.
    pub(crate) fn abort(&self) -> anyhow::Result<()> {
        run("sync", &["-f", &self.place.display().to_string()])?;
        run("mount", &["-o", "remount,abort", &self.place.display().to_string()])?;
        Ok(())
    }

    /// As an operator repairs it; nobody may use it meanwhile.
    pub(crate) fn repair(&self) -> anyhow::Result<()> {
        let (image, place) = (self.place.with_extension("img"), self.place.display().to_string());
        let image = image.display().to_string();
        run("umount", &[&place])?;
        try_run("e2fsck", &["-fy", &image]);
        run("mount", &["-o", "loop", &image, &place])?;
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.place
    }
}
