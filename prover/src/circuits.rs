//! How the engine gets its circuits: keys are fetched, imported into the disk cache and mapped; witness generators are
//! compiled; what belongs together is checked once.
//!
//! - [`synthesis`]: from a partition's input to its assignment.
//! - [`download`]: parts of circuits as files, within the cache's limit.
//! - [`generator`]: circom's WebAssembly, where it is built in.
//! - [`simulated`]: circuits that only take time.

pub mod download;
pub mod generator;
pub mod simulated;
pub mod synthesis;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use proofmill_engine::job::{Circuit, CircuitKind, Failure, FailureKind, Source};
use proofmill_engine::parts::{Cancel, KeyEstimate, KeySource, LoadedCircuit};
use proofmill_groth16::format::r1cs::{R1cs, R1csError};
use proofmill_groth16::key::cache::{CacheError, KeyCache};
use proofmill_groth16::key::constraints::ConstraintsError;
use proofmill_groth16::key::import::{ImportControl, ImportError};
use proofmill_groth16::key::{CircuitKey, ProvingKey};
use proofmill_groth16::verifying_key::VerifyingKey;
use proofmill_sources::Fetcher;
use rayon::ThreadPool;

use crate::inputs::fetch_failure;
use generator::Generator;
use synthesis::{Constraints, GrothSynthesizer};

/// Bytes of a verifying key as JSON, at most: that of a WindowPoSt has 2.5 MB.
const VERIFYING_KEY_LIMIT: u64 = 64 << 20;
/// Bytes of a .sym file, at most.
const SYMBOLS_LIMIT: u64 = 4 << 30;
/// Bytes of a witness generator, at most.
const GENERATOR_LIMIT: u64 = 256 << 20;

/// Loads circuits.
pub struct Circuits {
    /// Fetches what URLs name.
    pub fetcher: Arc<Fetcher>,
    /// Imported keys on disk.
    pub cache: KeyCache,
    /// Where files that come from elsewhere wait for their import: on the cache's own disk.
    pub folder: PathBuf,
    /// The largest key that is fetched, in bytes.
    pub key_limit: u64,
    /// Threads for imports, checks and evaluations: at lower priority, so that a device on the CPU goes first.
    pub threads: Arc<ThreadPool>,
    /// Whether the devices are simulated, so that they prove circuits of that kind and no other.
    pub simulated: bool,
    /// Whether circuits' `log()` lines are printed.
    pub circuit_log: bool,
    /// The keys that are resident, by the SHA-256 of their verifying keys. Those that are gone are dropped at each load, so
    /// that there are never many more than circuits in memory.
    pub verifying_keys: Mutex<HashMap<[u8; 32], Weak<ProvingKey>>>,
}

impl KeySource for Circuits {
    fn estimate(&self, circuit: &Circuit, cancel: &Cancel) -> Result<KeyEstimate, Failure> {
        self.require_kind(circuit)?;
        let resident = match &circuit.kind {
            CircuitKind::Simulated(simulated) => simulated.key_bytes,
            // A damaged entry counts as well: its import anew takes as much.
            CircuitKind::Groth16 { zkey, .. } => match self.cached(zkey, KeyCache::size)? {
                Some(bytes) => bytes,
                None if self.fetcher.is_local(&zkey.url) => self.estimate_local(&circuit.name, zkey, cancel)?,
                // What a server holds is known when it is here; the engine corrects its account then.
                None => 0,
            },
        };
        Ok(KeyEstimate { resident })
    }

    fn load(
        &self,
        circuit: &Circuit,
        progress: &(dyn Fn(u64, u64) + Sync),
        cancel: &Cancel,
    ) -> Result<Arc<LoadedCircuit>, Failure> {
        self.require_kind(circuit)?;
        match &circuit.kind {
            CircuitKind::Simulated(simulated) => simulated::load(simulated, cancel),
            CircuitKind::Groth16 { zkey, witness_generator, r1cs, symbols, verifying_key } => {
                let key = self.load_key(&format!("the key of circuit {}", circuit.name), zkey, progress, cancel)?;
                self.remember_verifying_key(&key);
                if let Some(source) = verifying_key {
                    self.check_verifying_key(&circuit.name, &key, source, cancel)?;
                }
                let generator = match witness_generator {
                    Some(source) => Some(self.load_generator(&circuit.name, &key, source, symbols.as_ref(), cancel)?),
                    None => None,
                };
                let constraints = match r1cs {
                    Some(source) => {
                        Some(self.load_constraints(&circuit.name, &key, source, symbols.as_ref(), cancel)?)
                    }
                    None => None,
                };
                let resident = key.info().bytes + generator.as_ref().map_or(0, Generator::memory_bytes);
                let synthesizer = GrothSynthesizer {
                    circuit: circuit.name.clone(),
                    key: Arc::clone(&key),
                    generator,
                    constraints,
                    threads: Arc::clone(&self.threads),
                };
                Ok(Arc::new(LoadedCircuit {
                    key: CircuitKey::Groth16(key),
                    synthesizer: Box::new(synthesizer),
                    resident,
                }))
            }
        }
    }

    fn discard(&self, circuit: &LoadedCircuit) {
        let CircuitKey::Groth16(key) = &circuit.key else { return };
        if let Err(error) = self.cache.discard(key) {
            tracing::warn!(%error, "a damaged key stays in the key cache; remove it by hand");
        }
    }
}

impl Circuits {
    /// The proving key at `source`, imported unless the cache has it. `what` is what messages call it.
    pub fn load_key(
        &self,
        what: &str,
        source: &Source,
        progress: &(dyn Fn(u64, u64) + Sync),
        cancel: &Cancel,
    ) -> Result<Arc<ProvingKey>, Failure> {
        if let Some(key) = self.cached(source, KeyCache::get)? {
            return Ok(key);
        }
        let fetch_error = |e| fetch_failure(&e, what, FailureKind::BadKey);
        let control = ImportControl { progress, cancelled: &|| cancel.is_cancelled() };
        let import = |path: PathBuf, sha256| {
            self.threads.install(|| self.cache.import(&path, sha256, &control)).map_err(|e| key_failure(&e, what))
        };
        if self.fetcher.is_local(&source.url) {
            let file = self.fetcher.open_local(&source.url).map_err(fetch_error)?;
            return import(open_path(&file), source.sha256);
        }
        let download = self.download(source, what, progress, cancel)?;
        import(download.fetched.path(), Some(download.fetched.sha256))
    }

    /// The verifying key with this SHA-256 as snarkjs's JSON, if a circuit with it is resident.
    pub fn verifying_key(&self, digest: &[u8; 32]) -> Option<Vec<u8>> {
        let key = self.verifying_keys.lock().unwrap_or_else(PoisonError::into_inner).get(digest)?.upgrade()?;
        Some(key.verifying_key().to_json().into_bytes())
    }

    fn remember_verifying_key(&self, key: &Arc<ProvingKey>) {
        let digest = key.verifying_key_digest();
        let mut keys = self.verifying_keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.retain(|_, key| key.strong_count() > 0);
        keys.insert(digest, Arc::downgrade(key));
    }

    fn require_kind(&self, circuit: &Circuit) -> Result<(), Failure> {
        let simulated = matches!(circuit.kind, CircuitKind::Simulated(_));
        if simulated == self.simulated {
            return Ok(());
        }
        let message = if simulated {
            format!("circuit {} is simulated: only an engine with --device simulated takes it", circuit.name)
        } else {
            format!("circuit {} needs a real device: start the engine without --device simulated", circuit.name)
        };
        Err(Failure { kind: FailureKind::BadKey, message })
    }

    /// What the cache answers about a key, if its digest is known beforehand.
    fn cached<T>(
        &self,
        source: &Source,
        ask: impl FnOnce(&KeyCache, &[u8; 32]) -> Result<Option<T>, CacheError>,
    ) -> Result<Option<T>, Failure> {
        match &source.sha256 {
            Some(digest) => ask(&self.cache, digest).map_err(|e| key_failure(&e, "the key cache")),
            None => Ok(None),
        }
    }

    /// Bytes that the import of a file here will take. Opening and reading may each take long on a disk far away.
    fn estimate_local(&self, circuit: &str, source: &Source, cancel: &Cancel) -> Result<u64, Failure> {
        let what = format!("the key of circuit {circuit}");
        go_on(cancel)?;
        let file = self.fetcher.open_local(&source.url).map_err(|e| fetch_failure(&e, &what, FailureKind::BadKey))?;
        go_on(cancel)?;
        self.cache.estimate(&open_path(&file)).map_err(|e| key_failure(&e, &what))
    }

    fn check_verifying_key(
        &self,
        circuit: &str,
        key: &ProvingKey,
        source: &Source,
        cancel: &Cancel,
    ) -> Result<(), Failure> {
        let what = format!("the verifying key of circuit {circuit}");
        let bytes = self.fetch(source, &what, VERIFYING_KEY_LIMIT, cancel)?;
        let expected = VerifyingKey::from_json(&bytes).map_err(|e| bad_key(format!("{what}: {e}")))?;
        let found = key.verifying_key();
        if expected.digest() == found.digest() {
            return Ok(());
        }
        Err(bad_key(format!(
            "the zkey of circuit {circuit} holds another verifying key (SHA-256 {}) than spec.groth16.verifyingKey \
             ({}); one of the two files is not this circuit's",
            proofmill_crds::hex::encode(&found.digest()),
            proofmill_crds::hex::encode(&expected.digest())
        )))
    }

    fn load_generator(
        &self,
        circuit: &str,
        key: &ProvingKey,
        source: &Source,
        symbols: Option<&Source>,
        cancel: &Cancel,
    ) -> Result<Generator, Failure> {
        let what = format!("the witness generator of circuit {circuit}");
        let bytes = self.fetch(source, &what, GENERATOR_LIMIT, cancel)?;
        let symbols = match symbols {
            Some(source) => {
                Some(self.fetch(source, &format!("the symbols of circuit {circuit}"), SYMBOLS_LIMIT, cancel)?)
            }
            None => None,
        };
        Ok(Generator::new(circuit, key.info(), bytes, symbols, self.circuit_log, Arc::clone(&self.threads)))
    }

    fn load_constraints(
        &self,
        circuit: &str,
        key: &ProvingKey,
        r1cs: &Source,
        symbols: Option<&Source>,
        cancel: &Cancel,
    ) -> Result<Constraints, Failure> {
        let what = format!("the r1cs of circuit {circuit}");
        let read = R1cs::read(self.open(r1cs, &what, cancel)?).map_err(|e| bad_key(format!("{what}: {e}")))?;
        // Other constraints of the same sizes would find every witness wrong, or let the devices look bad.
        let same = self.threads.install(|| key.check_constraints(&read, &|| cancel.is_cancelled()));
        same.map_err(|error| Failure {
            kind: match error {
                ConstraintsError::R1cs(R1csError::Cancelled) => FailureKind::Cancelled,
                _ => FailureKind::BadKey,
            },
            message: format!("{what}: {error}"),
        })?;
        let symbols = match symbols {
            Some(source) => Some(self.open(source, &format!("the symbols of circuit {circuit}"), cancel)?),
            None => None,
        };
        Ok(Constraints { r1cs: read, symbols })
    }

    /// A part of a circuit in memory.
    fn fetch(&self, source: &Source, what: &str, limit: u64, cancel: &Cancel) -> Result<Vec<u8>, Failure> {
        self.fetcher
            .fetch_bytes(&source.url, source.sha256, limit, &|| cancel.is_cancelled(), &|_, _| {})
            .map_err(|e| fetch_failure(&e, what, FailureKind::BadKey))
    }
}

/// A path that leads to an open file whatever happens to its name.
fn open_path(file: &std::fs::File) -> PathBuf {
    use std::os::fd::AsRawFd as _;
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Ends work that is not wanted any more.
fn go_on(cancel: &Cancel) -> Result<(), Failure> {
    if cancel.is_cancelled() {
        return Err(Failure { kind: FailureKind::Cancelled, message: "cancelled".into() });
    }
    Ok(())
}

fn bad_key(message: String) -> Failure {
    Failure { kind: FailureKind::BadKey, message }
}

/// A failed import of `what`.
pub fn key_failure(error: &CacheError, what: &str) -> Failure {
    let kind = match error {
        CacheError::Import(ImportError::Cancelled) => FailureKind::Cancelled,
        CacheError::Import(ImportError::DiskFull(_) | ImportError::Write(_))
        | CacheError::Directory { .. }
        | CacheError::Full { .. } => FailureKind::Internal,
        CacheError::Import(_) | CacheError::DigestRequired => FailureKind::BadKey,
    };
    Failure { kind, message: format!("{what}: {error}") }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proofmill_sources::policy::Policy;

    use super::*;

    fn circuits(folder: &Path) -> Circuits {
        Circuits {
            fetcher: Arc::new(Fetcher::new(Policy::run("/")).unwrap()),
            cache: KeyCache::open(folder, u64::MAX).unwrap(),
            folder: folder.join("tmp"),
            key_limit: u64::MAX,
            threads: Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap()),
            simulated: false,
            circuit_log: false,
            verifying_keys: Mutex::default(),
        }
    }

    fn chain(sha256: Option<[u8; 32]>) -> Circuit {
        let zkey = Path::new("../tests/fixtures/circom/chain/bn128/chain.zkey");
        let zkey = Source { url: proofmill_sources::url::file_url(&zkey.canonicalize().unwrap()), sha256 };
        let kind =
            CircuitKind::Groth16 { zkey, witness_generator: None, r1cs: None, symbols: None, verifying_key: None };
        Circuit { name: "chain".into(), kind }
    }

    #[test]
    fn an_estimate_tells_what_the_load_takes() {
        let folder = tempfile::tempdir().unwrap();
        let circuits = circuits(folder.path());
        let estimate = |sha256| circuits.estimate(&chain(sha256), &Cancel::default()).unwrap().resident;
        let before = estimate(None);
        let loaded = circuits.load(&chain(None), &|_, _| {}, &Cancel::default()).unwrap();
        assert!(before >= loaded.resident, "{before} {}", loaded.resident);
        let CircuitKey::Groth16(key) = &loaded.key else { panic!("not what was loaded") };
        assert_eq!(estimate(Some(key.info().source_digest)), loaded.resident);
        assert!(estimate(Some([0; 32])) >= loaded.resident, "of a key that is not in the cache: from its file");
    }

    #[test]
    fn an_estimate_can_be_cancelled() {
        let folder = tempfile::tempdir().unwrap();
        let cancel = Cancel::default();
        cancel.cancel();
        let failure = circuits(folder.path()).estimate(&chain(None), &cancel).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Cancelled);
    }
}
