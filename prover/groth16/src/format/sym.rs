//! A sym file: lines "label,wire,component,name" that give wires the names of signals.

use std::collections::BTreeMap;

use super::source::{Cursor, ReadAt, ReadError};

/// What is wrong with a sym file.
#[derive(Debug, thiserror::Error)]
pub enum SymError {
    /// The bytes could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A line that is none of a sym file.
    #[error(
        "line {line} of the sym file is not \"label,wire,component,name\"; give the .sym that circom wrote with `--sym`"
    )]
    Line {
        /// The line, from 1.
        line: u64,
    },
    /// A line that is far too long.
    #[error("line {line} of the sym file has more than {MAX_LINE} bytes; this is not a sym file")]
    LineTooLong {
        /// The line, from 1.
        line: u64,
    },
}

/// Bytes of a line, at most.
const MAX_LINE: usize = 16 << 10;
/// Bytes read at once.
const BLOCK: u64 = 64 << 10;

/// The names of the given wires: the first signal of each, in the file's order. Reads the file once, keeps only these.
pub fn names(source: &(impl ReadAt + ?Sized), wires: &[u32]) -> Result<BTreeMap<u32, String>, SymError> {
    let mut names = BTreeMap::new();
    let mut line = Vec::new();
    let mut number = 1;
    let mut cursor = Cursor::new(source, 0, source.len());
    loop {
        let take = cursor.remaining().min(BLOCK) as usize;
        let Ok(block) = cursor.take(take)? else { break };
        if block.is_empty() {
            break;
        }
        for part in block.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if line.len() > MAX_LINE {
                return Err(SymError::LineTooLong { line: number });
            }
            if part.ends_with(b"\n") {
                keep(&line, number, wires, &mut names)?;
                line.clear();
                number += 1;
            }
        }
    }
    if !line.is_empty() {
        keep(&line, number, wires, &mut names)?;
    }
    Ok(names)
}

/// Checks one line, and keeps its name if its wire is wanted and has none yet.
fn keep(line: &[u8], number: u64, wires: &[u32], names: &mut BTreeMap<u32, String>) -> Result<(), SymError> {
    let bad = SymError::Line { line: number };
    let Ok(text) = std::str::from_utf8(line) else { return Err(bad) };
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() {
        return Ok(());
    }
    let mut fields = text.splitn(4, ',');
    let mut number_field = || fields.next().and_then(|field| field.parse::<i64>().ok());
    let (Some(_label), Some(wire), Some(_component)) = (number_field(), number_field(), number_field()) else {
        return Err(bad);
    };
    let Some(name) = fields.next().filter(|name| !name.is_empty() && !name.chars().any(char::is_control)) else {
        return Err(bad);
    };
    // Wire -1: the compiler removed the signal.
    if let Ok(wire) = u32::try_from(wire)
        && wires.contains(&wire)
    {
        names.entry(wire).or_insert_with(|| name.to_owned());
    }
    Ok(())
}
