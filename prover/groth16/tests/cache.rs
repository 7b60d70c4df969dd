//! The disk cache under everything that can happen to it.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use common::Parts;
use proofmill_groth16::curve::Curve;
use proofmill_groth16::key::ProvingKey;
use proofmill_groth16::key::cache::{CacheError, KeyCache};
use proofmill_groth16::key::import::{ImportControl, ImportError};
use sha2::{Digest, Sha256};

const LIMIT: u64 = 64 << 20;

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// A folder with a cache's place and a zkey.
struct World {
    folder: tempfile::TempDir,
    zkey: PathBuf,
    digest: [u8; 32],
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let zkey = folder.path().join("chain.zkey");
        let bytes = common::fixture(Curve::Bn254, "chain.zkey");
        fs::write(&zkey, &bytes).unwrap();
        Self { folder, zkey, digest: digest(&bytes) }
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn cache(&self, limit: u64) -> KeyCache {
        KeyCache::open(&self.place(), limit).unwrap()
    }

    /// The same key as another file: an unknown section of `tag` bytes makes the digest differ.
    fn variant(&self, tag: usize) -> PathBuf {
        let mut parts = Parts::of(&common::fixture(Curve::Bn254, "chain.zkey"));
        parts.sections.push((1000, vec![1; tag], None));
        let path = self.folder.path().join(format!("variant-{tag}.zkey"));
        fs::write(&path, parts.bytes()).unwrap();
        path
    }

    fn files(&self, folder: &str) -> Vec<PathBuf> {
        fs::read_dir(self.place().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

fn import(cache: &KeyCache, path: &Path) -> Result<Arc<ProvingKey>, CacheError> {
    cache.import(path, None, &ImportControl::QUIET)
}

#[test]
fn a_key_is_imported_once_and_found_again() {
    let world = World::new();
    let cache = world.cache(LIMIT);
    assert!(cache.get(&world.digest).unwrap().is_none());
    assert_eq!(cache.size(&world.digest).unwrap(), None);
    let key = import(&cache, &world.zkey).unwrap();
    assert_eq!(cache.size(&world.digest).unwrap(), Some(key.info().bytes));
    assert_eq!(key.info().source_digest, world.digest);
    let again = cache.get(&world.digest).unwrap().unwrap();
    assert_eq!(again.info(), key.info());
    // With the digest known the file is not even opened.
    let known = cache.import("/nonexistent".as_ref(), Some(world.digest), &ImportControl::QUIET).unwrap();
    assert_eq!(known.info(), key.info());
    assert!(world.files("tmp").is_empty());
    assert_eq!(cache.entries().unwrap().len(), 1);
    assert!(fs::metadata(&world.files("keys")[0]).unwrap().permissions().readonly());
}

#[test]
fn the_source_may_change_or_vanish_while_its_key_is_mapped() {
    let world = World::new();
    let key = import(&world.cache(LIMIT), &world.zkey).unwrap();
    fs::File::options().write(true).open(&world.zkey).unwrap().set_len(10).unwrap();
    key.verify_digests().unwrap();
    fs::write(&world.zkey, b"something else").unwrap();
    key.verify_digests().unwrap();
    fs::remove_file(&world.zkey).unwrap();
    key.verify_digests().unwrap();
}

#[test]
fn an_imported_key_given_as_a_file_is_copied_so_it_may_change_too() {
    let world = World::new();
    let (_, bytes) = common::import(&fs::read(&world.zkey).unwrap()).unwrap();
    let path = world.folder.path().join("chain.key");
    fs::write(&path, &bytes).unwrap();
    let cache = world.cache(LIMIT);
    assert!(matches!(import(&cache, &path), Err(CacheError::DigestRequired)));
    let wrong = cache.import(&path, Some([7; 32]), &ImportControl::QUIET);
    assert!(matches!(wrong, Err(CacheError::Import(ImportError::DigestMismatch { .. }))));
    let key = cache.import(&path, Some(digest(&bytes)), &ImportControl::QUIET).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    key.verify_digests().unwrap();
    assert_eq!(key.info().source_digest, world.digest);
    // A damaged one, under its own true digest, is still refused.
    let mut damaged = bytes.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let refused = cache.import(&path, Some(digest(&damaged)), &ImportControl::QUIET);
    assert!(matches!(refused, Err(CacheError::Import(ImportError::KeyFile(_)))));
    assert!(world.files("tmp").is_empty());
}

#[test]
fn an_entry_that_is_replaced_or_deleted_while_mapped_stays_readable() {
    let world = World::new();
    let cache = world.cache(LIMIT);
    let key = import(&cache, &world.zkey).unwrap();
    fs::remove_file(&world.files("keys")[0]).unwrap();
    key.verify_digests().unwrap();
    key.check_length().unwrap();
    let again = import(&cache, &world.zkey).unwrap();
    assert_eq!(again.info(), key.info());
    key.verify_digests().unwrap();
}

#[test]
fn a_wrong_digest_is_refused_and_leaves_nothing() {
    let world = World::new();
    let cache = world.cache(LIMIT);
    let result = cache.import(&world.zkey, Some([1; 32]), &ImportControl::QUIET);
    assert!(matches!(result, Err(CacheError::Import(ImportError::DigestMismatch { .. }))));
    assert!(world.files("keys").is_empty() && world.files("tmp").is_empty());
}

#[test]
fn damaged_entries_are_found_and_imported_again() {
    let world = World::new();
    let cache = world.cache(LIMIT);
    drop(import(&cache, &world.zkey).unwrap());
    let path = world.files("keys").remove(0);
    let good = fs::read(&path).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    for bad in [&good[..good.len() / 2], &[], &flipped, b"not a key at all, not even nearly"] {
        fs::remove_file(&path).unwrap();
        fs::write(&path, bad).unwrap();
        assert!(cache.get(&world.digest).unwrap().is_none());
        let key = import(&cache, &world.zkey).unwrap();
        key.verify_digests().unwrap();
    }
    assert_eq!(fs::read(&path).unwrap(), good);
}

#[test]
fn a_damaged_entry_is_discarded_even_while_it_is_leased() {
    let world = World::new();
    let cache = world.cache(LIMIT);
    let key = import(&cache, &world.zkey).unwrap();
    assert!(!cache.evict(&world.digest).unwrap(), "it is leased");
    assert!(cache.discard(&key).unwrap());
    assert!(world.files("keys").is_empty());
    key.verify_digests().unwrap();
    // The next one is another file: the old key does not cost it its entry.
    let again = import(&cache, &world.zkey).unwrap();
    assert!(!cache.discard(&key).unwrap());
    assert!(cache.get(&world.digest).unwrap().is_some());
    drop(again);
}

#[test]
fn a_download_counts_from_its_first_byte_to_its_import() {
    let world = World::new();
    let entry = import(&world.cache(LIMIT), &world.zkey).unwrap().info().bytes;
    let limit = entry + 1_000_000;
    let cache = world.cache(limit);
    let mut space = cache.download_space();
    space.grow(400_000).unwrap();
    space.grow(900_000).unwrap();
    assert_eq!(cache.entries().unwrap().len(), 1, "there is room for both");
    let mut other = cache.download_space();
    other.grow(200_000).unwrap();
    assert!(cache.entries().unwrap().is_empty(), "the idle entry went");
    // An import finds what the downloads leave.
    match import(&cache, &world.zkey) {
        Err(CacheError::Full { have, .. }) => assert_eq!(have, limit - 1_100_000),
        result => panic!("{:?}", result.map(|key| key.info().clone())),
    }
    drop((space, other));
    let key = import(&cache, &world.zkey).unwrap();
    assert!(matches!(cache.download_space().grow(2_000_000), Err(CacheError::Full { .. })), "it is leased");
    drop(key);
    assert!(world.files("tmp").is_empty());
}

#[test]
fn litter_of_dead_processes_is_removed_and_work_under_way_is_not() {
    let world = World::new();
    drop(world.cache(LIMIT));
    fs::write(world.place().join("tmp/dead"), vec![0; 1000]).unwrap();
    let alive = fs::File::create(world.place().join("tmp/alive")).unwrap();
    alive.lock().unwrap();
    let cache = world.cache(LIMIT);
    assert_eq!(world.files("tmp"), [world.place().join("tmp/alive")]);
    // What is under way counts: with it there is no room.
    alive.set_len(LIMIT).unwrap();
    assert!(matches!(import(&cache, &world.zkey), Err(CacheError::Full { have: 0, .. })));
    drop(alive);
    import(&cache, &world.zkey).unwrap();
    assert!(world.files("tmp").is_empty());
}

#[test]
fn the_least_recently_used_entry_goes_and_leased_ones_stay() {
    let world = World::new();
    let variants: Vec<PathBuf> = (1..=3).map(|tag| world.variant(tag)).collect();
    let need = world.cache(LIMIT).estimate(&variants[0]).unwrap();
    // Room for two.
    let cache = world.cache(2 * need + need / 2);
    let digests: Vec<[u8; 32]> = variants.iter().map(|path| digest(&fs::read(path).unwrap())).collect();
    for (age, path) in [(20, &variants[0]), (10, &variants[1])] {
        let key = import(&cache, path).unwrap();
        let entry = world.place().join("keys").join(hex(&key.info().source_digest)).with_extension("key");
        drop(key);
        let then = SystemTime::now() - Duration::from_secs(age);
        fs::File::open(entry).unwrap().set_modified(then).unwrap();
    }
    // The older one is in use: the other goes.
    let lease = cache.get(&digests[0]).unwrap().unwrap();
    let third = import(&cache, &variants[2]).unwrap();
    assert!(cache.get(&digests[1]).unwrap().is_none());
    lease.verify_digests().unwrap();
    // Both are in use: there is no room, and the error says how much there is.
    match import(&cache, &variants[1]) {
        Err(CacheError::Full { need: asked, have }) => {
            assert_eq!(asked, cache.estimate(&variants[1]).unwrap());
            assert_eq!(have, cache.limit() - lease.info().bytes - third.info().bytes);
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a leased key was evicted"),
    }
    assert!(!cache.evict(&digests[0]).unwrap());
    drop(lease);
    import(&cache, &variants[1]).unwrap();
    assert!(cache.get(&digests[0]).unwrap().is_none());
    assert!(cache.evict(&digests[1]).unwrap());
}

#[test]
fn a_key_larger_than_the_cache_costs_nobody_an_entry() {
    let world = World::new();
    let small = world.cache(LIMIT);
    drop(import(&small, &world.zkey).unwrap());
    let cache = world.cache(2 << 20);
    let big = world.folder.path().join("big.zkey");
    fs::write(&big, common::fixture(Curve::Bls12381, "chain.zkey")).unwrap();
    assert!(matches!(import(&cache, &big), Err(CacheError::Full { .. })));
    assert_eq!(cache.entries().unwrap().len(), 1);
    assert!(world.files("tmp").is_empty());
}

#[test]
fn two_imports_at_once_do_the_work_once() {
    let world = World::new();
    let cache = world.cache(LIMIT);
    let imports = AtomicUsize::new(0);
    let results: Vec<Arc<ProvingKey>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    // The import, unlike the waiting, reports progress.
                    let progress = |done: u64, total| {
                        if done == total {
                            imports.fetch_add(1, Ordering::SeqCst);
                        }
                    };
                    let control = ImportControl { progress: &progress, cancelled: &|| false };
                    cache.import(&world.zkey, None, &control).unwrap()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(imports.load(Ordering::SeqCst), 1);
    assert!(results.iter().all(|key| key.info() == results[0].info()));
    assert_eq!(cache.entries().unwrap().len(), 1);
}

#[test]
fn waiting_for_another_process_can_be_cancelled() {
    let world = World::new();
    let cache = world.cache(LIMIT);
    let name = hex(&world.digest[..2]);
    let other = fs::File::create(world.place().join("locks").join(name)).unwrap();
    other.lock().unwrap();
    let start = std::time::Instant::now();
    let cancelled = || start.elapsed() > Duration::from_millis(100);
    let control = ImportControl { progress: &|_, _| (), cancelled: &cancelled };
    let expected = Some(world.digest);
    let result = cache.import(&world.zkey, expected, &control);
    assert!(matches!(result, Err(CacheError::Import(ImportError::Cancelled))));
    drop(other);
    cache.import(&world.zkey, expected, &ImportControl::QUIET).unwrap();
}

#[test]
fn a_cancelled_import_leaves_nothing() {
    let world = World::new();
    let cache = world.cache(LIMIT);
    let reached = AtomicBool::new(false);
    let progress = |done, total| {
        if done > total / 2 {
            reached.store(true, Ordering::SeqCst);
        }
    };
    let control = ImportControl { progress: &progress, cancelled: &|| reached.load(Ordering::SeqCst) };
    let result = cache.import(&world.zkey, Some(world.digest), &control);
    assert!(matches!(result, Err(CacheError::Import(ImportError::Cancelled))));
    assert!(world.files("keys").is_empty() && world.files("tmp").is_empty());
}

#[test]
fn a_malformed_key_leaves_nothing() {
    let world = World::new();
    let cache = world.cache(LIMIT);
    let mut bytes = fs::read(&world.zkey).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xff);
    fs::write(&world.zkey, &bytes).unwrap();
    assert!(matches!(import(&cache, &world.zkey), Err(CacheError::Import(ImportError::Zkey(_)))));
    assert!(world.files("keys").is_empty() && world.files("tmp").is_empty());
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let error = KeyCache::open("/proc/nonexistent/cache".as_ref(), LIMIT).unwrap_err();
    assert!(matches!(&error, CacheError::Directory { .. }));
    assert!(error.to_string().contains("/proc/nonexistent/cache"), "{error}");
}

/// A real full disk, where this machine lets a test mount one.
#[test]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    if std::env::var_os("PROOFMILL_TEST_FULL_DISK").is_none() {
        let this = std::env::current_exe().unwrap();
        let script = "d=$(mktemp -d) && mount -t tmpfs -o size=1m none $d && PROOFMILL_TEST_FULL_DISK=$d exec \"$0\" \
                      --exact a_full_disk_is_an_error_and_leaves_nothing --nocapture";
        let run = std::process::Command::new("unshare").args(["-rm", "sh", "-c", script]).arg(this).output();
        let Ok(output) = run else {
            println!("SKIPPED a_full_disk_is_an_error_and_leaves_nothing: no unshare on this machine");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if !text.contains("running 1 test") {
            println!("SKIPPED a_full_disk_is_an_error_and_leaves_nothing: no private mounts here ({})", text.trim());
            return;
        }
        assert!(output.status.success(), "{text}");
        return;
    }
    let disk = PathBuf::from(std::env::var_os("PROOFMILL_TEST_FULL_DISK").unwrap());
    let cache = KeyCache::open(&disk, LIMIT).unwrap();
    let result = import(&cache, &common::fixture_path(Curve::Bn254, "chain.zkey"));
    match result {
        Err(CacheError::Import(ImportError::DiskFull(_))) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("1.7 MB fit into 1 MiB"),
    }
    for folder in ["keys", "tmp"] {
        assert_eq!(fs::read_dir(disk.join(folder)).unwrap().count(), 0);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
