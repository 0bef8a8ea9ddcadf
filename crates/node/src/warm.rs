//! Warm interpreters: one zygote for each template, replaced in time.
//!
//! All interpreters forked from one zygote share its hash seed and the layout
//! of its memory, so none is forked from for long: after [`MOST_FORKS`] or
//! [`LONGEST_LIFE`] another takes over. The old one lives on, doing nothing,
//! until the last sandbox made for it is gone.

mod saved;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar_domain::limits::GIB;
use belljar_domain::{Limits, RootFs, Spec, Tier};
use belljar_engine::{Engine, Program, StartError, Zygote};
use belljar_guest_proto::context::FromContext;

use crate::copy::Stills;
use crate::runtime;

pub(crate) use saved::Saved;

/// What makes the interpreter of a template warm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warmth {
    pub root: RootFs,
    /// Path of the Python interpreter inside the template.
    pub interpreter: PathBuf,
    /// Run once, before any request.
    pub code: String,
    pub env: BTreeMap<String, String>,
}

/// Why a template has no warm interpreter.
#[derive(Debug, thiserror::Error)]
pub enum WarmError {
    #[error("the zygote did not start")]
    Start(#[source] StartError),
    #[error("cannot fork from the zygote: {0}")]
    Unfit(String),
    #[error("the zygote ended while it warmed up: {0}")]
    Died(String),
    #[error("the zygote did not warm up in {0:?}")]
    Late(Duration),
    #[error("the path or environment contains a NUL byte")]
    Text,
}

/// Forks after which a zygote is replaced.
pub const MOST_FORKS: u64 = 500;
/// Age at which it is.
pub const LONGEST_LIFE: Duration = Duration::from_secs(600);

const WARM_UP: Duration = Duration::from_secs(180);

/// The zygotes of one template, one of which is forked from now.
#[derive(Debug)]
pub(crate) struct Family {
    engine: Engine,
    pub(crate) warmth: Warmth,
    current: Mutex<Current>,
    replacing: AtomicBool,
    replaced: AtomicU64,
    pub(crate) stills: Stills,
}

#[derive(Debug)]
struct Current {
    zygote: Arc<Zygote>,
    born: Instant,
    forks: u64,
}

impl Family {
    pub(crate) async fn start(engine: Engine, warmth: Warmth) -> Result<Arc<Self>, WarmError> {
        let zygote = Arc::new(warm_up(&engine, &warmth).await?);
        let current = Mutex::new(Current { zygote, born: Instant::now(), forks: 0 });
        Ok(Arc::new(Self {
            engine,
            warmth,
            current,
            replacing: AtomicBool::new(false),
            replaced: AtomicU64::new(0),
            stills: Stills::default(),
        }))
    }

    /// The zygote to make a sandbox for, which counts as a fork.
    pub(crate) fn zygote(self: &Arc<Self>) -> Arc<Zygote> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.forks += 1;
        if current.forks >= MOST_FORKS || current.born.elapsed() >= LONGEST_LIFE {
            self.replace();
        }
        current.zygote.clone()
    }

    /// Changes when another zygote takes over.
    pub(crate) fn generation(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Says that a zygote does not fork any more.
    pub(crate) fn failed(self: &Arc<Self>, zygote: &Arc<Zygote>) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&current.zygote, zygote) {
            self.replace();
        }
    }

    /// Warms another one up beside, and lets it take over.
    fn replace(self: &Arc<Self>) {
        if self.replacing.swap(true, Ordering::AcqRel) {
            return;
        }
        let family = self.clone();
        tokio::spawn(async move {
            if let Ok(zygote) = warm_up(&family.engine, &family.warmth).await {
                let next = Current { zygote: Arc::new(zygote), born: Instant::now(), forks: 0 };
                *family.current.lock().unwrap_or_else(PoisonError::into_inner) = next;
                family.replaced.fetch_add(1, Ordering::Relaxed);
            }
            // A failure is tried again at the next fork.
            family.replacing.store(false, Ordering::Release);
        });
    }
}

async fn warm_up(engine: &Engine, warmth: &Warmth) -> Result<Zygote, WarmError> {
    let (argv, boot) = runtime::zygote(&warmth.interpreter, &warmth.code).ok_or(WarmError::Text)?;
    // It may use what it needs to warm up in reasonable time.
    let limits = Limits { memory_bytes: 2 * GIB, cpu_millis: 4000, ..Limits::default() };
    let spec = Spec { limits, ..Spec::new(Tier::Jail, warmth.root.clone()) };
    let program = Program { argv, env: environment(warmth)?, library: runtime::ZYGOTE };
    let zygote = engine.start_zygote(&spec, &program).await.map_err(WarmError::Start)?;
    let died = |zygote: &Zygote| WarmError::Died(zygote.complaints().trim().to_owned());
    let warmed = async {
        for packet in boot.chunks(64 << 10) {
            if zygote.send(packet, &[]).await.is_err() {
                return Err(died(&zygote));
            }
        }
        let word = zygote.receive().await.unwrap_or_default();
        match serde_json::from_slice(&word) {
            Ok(FromContext::Ready { .. }) => Ok(()),
            Ok(FromContext::Unfit { reason }) => Err(WarmError::Unfit(reason)),
            _ => {
                // What it complained about may still be on its way.
                tokio::time::sleep(Duration::from_millis(100)).await;
                Err(died(&zygote))
            }
        }
    };
    let warmed = tokio::time::timeout(WARM_UP, warmed).await;
    warmed.unwrap_or(Err(WarmError::Late(WARM_UP)))?;
    Ok(zygote)
}

/// Nothing of the host's. `HOME` is its own: what it writes there is its own
/// too, and gone with it.
fn environment(warmth: &Warmth) -> Result<Vec<CString>, WarmError> {
    let fixed = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/tmp"), ("LANG", "C.UTF-8")];
    let fixed = fixed.into_iter().map(|(key, value)| format!("{key}={value}"));
    let given = warmth.env.iter().filter(|(key, _)| key.as_str() != "HOME");
    let given = given.map(|(key, value)| format!("{key}={value}"));
    fixed.chain(given).map(|text| CString::new(text).map_err(|_| WarmError::Text)).collect()
}
