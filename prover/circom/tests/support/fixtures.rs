//! The repository's fixtures, and witnesses as snarkjs wrote them.

use std::path::{Path, PathBuf};

/// A file of the repository's fixtures.
pub fn fixture(path: &str) -> PathBuf {
    Path::new("../../tests/fixtures/circom").join(path)
}

/// The values of a `.wtns` file of circom's fixed layout: header section first, then the values.
pub fn wtns_values(file: &[u8]) -> Vec<[u64; 4]> {
    let count = u32::from_le_bytes(file[60..64].try_into().unwrap()) as usize;
    let values = &file[76..];
    assert_eq!(values.len(), count * 32);
    let limb = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    values.chunks(32).map(|value| std::array::from_fn(|index| limb(&value[index * 8..][..8]))).collect()
}
