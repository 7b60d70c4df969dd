//! The names of a circuit's inputs. A generator knows hashes only; the `.sym` file that `circom --sym` writes lists all
//! signals by name, and the generator says which of those are inputs.

use std::collections::HashSet;

use crate::error::CircomError;

/// The component that every circuit's signals are listed below.
const MAIN: &str = "main.";

/// The distinct first parts of the names below `main`, in the file's order: signals, buses, and subcomponents.
pub(crate) fn top_level(symbols: &[u8]) -> Result<Vec<&str>, CircomError> {
    let mut seen = HashSet::new();
    let mut names = Vec::new();
    for (index, line) in symbols.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let malformed = || CircomError::Symbols { line: index + 1 };
        let name = line.splitn(4, |byte| *byte == b',').nth(3).ok_or_else(malformed)?;
        let name = std::str::from_utf8(name).map_err(|_| malformed())?.strip_prefix(MAIN).ok_or_else(malformed)?;
        let top = name.split(['.', '[']).next().unwrap_or(name);
        if seen.insert(top) {
            names.push(top);
        }
    }
    Ok(names)
}

/// The first part of a signal's qualified name: `q` of `q[0][1].x`.
pub(crate) fn top_of(name: &str) -> &str {
    name.split(['.', '[']).next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_first_parts_once() {
        let symbols =
            b"1,1,1,main.sum\n4,4,1,main.m[0][0]\r\n5,5,1,main.m[0][1]\n6,-1,1,main.q[0].x\n27,-1,0,main.sub.in\n";
        assert_eq!(top_level(symbols).unwrap(), ["sum", "m", "q", "sub"]);
        assert_eq!(top_level(b"").unwrap(), Vec::<&str>::new());
        for (malformed, line) in
            [(&b"1,1,main.a"[..], 1), (b"1,1,1,main.a\n\nx", 3), (b"1,1,1,other.a", 1), (b"1,1,1,main.\xff", 1)]
        {
            assert_eq!(top_level(malformed), Err(CircomError::Symbols { line }));
        }
        assert_eq!(top_of("q[0][1].x"), "q");
    }
}
