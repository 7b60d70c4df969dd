//! The coefficients: from unordered triplets with 32-byte values to matrices by rows with a table of distinct values.
//!
//! Memory: 12 bytes an entry, of 44 in the file, and 32 bytes (about 90 with the hash table) a distinct value; real circuits
//! have few of these.

use std::collections::HashMap;

use proofmill_kernels::field::{Field, PrimeField};
use rayon::prelude::*;

use super::ImportError;
use super::output::Output;
use super::stream::Stream;
use crate::curve::Suite;
use crate::format::container::{below, limbs_at, u32_at};
use crate::format::zkey::{COEFFICIENT_BYTES, ZkeyError, ZkeyHeader};
use crate::key::layout::Part;

/// One entry of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    row: u32,
    wire: u32,
    /// Its value's place in the table.
    place: u32,
}

/// The distinct values, in the order in which they occur first: the same zkey gives the same file.
struct Table<S: Suite> {
    values: Vec<S::Fr>,
    places: HashMap<[u64; 4], u32>,
    /// The value before the current one: entries often repeat it.
    last: ([u64; 4], u32),
}

/// Reads section 4 behind its count, and writes both matrices. The number of constraints.
pub(super) fn copy<S: Suite>(
    stream: &mut Stream<'_>,
    output: &mut Output<'_>,
    header: &ZkeyHeader,
) -> Result<u32, ImportError> {
    let mut table = Table::<S>::new();
    let mut matrices = [Vec::new(), Vec::new()];
    let count = u64::from(header.coefficients);
    stream.for_each_step(count, COEFFICIENT_BYTES as usize, |first, bytes: &[u8]| {
        for (index, entry) in (first..).zip(bytes.chunks_exact(COEFFICIENT_BYTES as usize)) {
            let (matrix, entry, value) = read_entry(entry, index, header)?;
            let place = table.place(value);
            matrices[matrix].push(Entry { place, ..entry });
        }
        Ok(())
    })?;
    let last_row = matrices.iter().flatten().map(|entry| entry.row).max().unwrap_or(0);
    let [a, b] = &mut matrices;
    write(a, &mut table, output, header, [Part::MatrixARows, Part::MatrixAWires, Part::MatrixACoefficients])?;
    write(b, &mut table, output, header, [Part::MatrixBRows, Part::MatrixBWires, Part::MatrixBCoefficients])?;
    output.section(Part::Coefficients, bytemuck::cast_slice(&table.values))?;
    // The rows behind the constraints are those of the constant and the public signals.
    Ok(last_row.saturating_sub(header.public))
}

/// The matrix (0 or 1), the entry without its place, the value.
fn read_entry(bytes: &[u8], index: u64, header: &ZkeyHeader) -> Result<(usize, Entry, [u64; 4]), ZkeyError> {
    let (matrix, row, wire) = (u32_at(bytes, 0), u32_at(bytes, 4), u32_at(bytes, 8));
    let value = limbs_at(bytes, 12);
    if matrix > 1 {
        return Err(ZkeyError::CoefficientMatrix { index, matrix });
    }
    if u64::from(row) >= header.domain() {
        return Err(ZkeyError::CoefficientRow { index, row, domain: header.domain() });
    }
    if wire >= header.variables {
        return Err(ZkeyError::CoefficientSignal { index, signal: wire, variables: header.variables });
    }
    if !below(&value, &header.curve.scalar_modulus()) {
        return Err(ZkeyError::CoefficientValue { index });
    }
    Ok((matrix as usize, Entry { row, wire, place: 0 }, value))
}

/// Sorts by row and wire, adds up repeats, drops zeros, writes the three sections; frees the entries.
fn write<S: Suite>(
    entries: &mut Vec<Entry>,
    table: &mut Table<S>,
    output: &mut Output<'_>,
    header: &ZkeyHeader,
    [rows, wires, places]: [Part; 3],
) -> Result<(), ImportError> {
    if !entries.is_sorted() {
        entries.par_sort_unstable();
    }
    merge(entries, table);
    let mut starts = Vec::with_capacity(header.domain() as usize + 1);
    let mut next = 0;
    for row in 0..=header.domain() {
        while entries.get(next).is_some_and(|entry| u64::from(entry.row) < row) {
            next += 1;
        }
        starts.push(next as u32);
    }
    output.section(rows, bytemuck::cast_slice(&starts))?;
    drop(starts);
    column(entries, output, wires, |entry| entry.wire)?;
    column(entries, output, places, |entry| entry.place)?;
    *entries = Vec::new();
    Ok(())
}

fn column(
    entries: &[Entry],
    output: &mut Output<'_>,
    part: Part,
    pick: impl Fn(&Entry) -> u32,
) -> Result<(), ImportError> {
    output.begin(part)?;
    let mut buffer = Vec::new();
    for chunk in entries.chunks(1 << 18) {
        buffer.clear();
        buffer.extend(chunk.iter().map(&pick));
        output.write(bytemuck::cast_slice(&buffer))?;
    }
    output.end();
    Ok(())
}

/// Adds up entries of one row and wire, and drops zeros; `entries` is sorted.
fn merge<S: Suite>(entries: &mut Vec<Entry>, table: &mut Table<S>) {
    let mut kept = 0;
    let mut next = 0;
    while let Some(&first) = entries.get(next) {
        next += 1;
        let mut sum = table.value(first.place);
        let mut place = first.place;
        let mut repeated = false;
        while let Some(entry) = entries.get(next).filter(|entry| (entry.row, entry.wire) == (first.row, first.wire)) {
            sum = sum.add(&table.value(entry.place));
            repeated = true;
            next += 1;
        }
        if repeated {
            place = table.place(sum.montgomery());
        }
        if !sum.is_zero() {
            entries[kept] = Entry { place, ..first };
            kept += 1;
        }
    }
    entries.truncate(kept);
}

impl<S: Suite> Table<S> {
    fn new() -> Self {
        Self { values: Vec::new(), places: HashMap::new(), last: ([0; 4], u32::MAX) }
    }

    /// The place of a value, which is below the modulus.
    fn place(&mut self, value: [u64; 4]) -> u32 {
        if self.last == (value, self.last.1) && self.last.1 != u32::MAX {
            return self.last.1;
        }
        // At most one place an entry, and entries are counted in u32.
        let next = self.values.len() as u32;
        let place = *self.places.entry(value).or_insert(next);
        if place == next {
            self.values.push(S::Fr::from_montgomery(value));
        }
        self.last = (value, place);
        place
    }

    fn value(&self, place: u32) -> S::Fr {
        self.values.get(place as usize).copied().unwrap_or(S::Fr::ZERO)
    }
}
