//! `input.json` as snarkjs takes it: an object of signal names and values, flattened to named signals.
//!
//! The circuit's own sizes are not known here; what the circuit does not have is found when the signals are set.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::error::{CircomError, ValueProblem};
use crate::field::{self, Limbs};
use crate::json::{Scanner, Token};
use crate::limits::Limits;

/// Values beyond the circuit's total that are still read, so that an unknown signal can be called unknown.
const SLACK: usize = 4096;

/// Bytes of a signal's qualified name; no circuit has longer ones.
const NAME: usize = 4096;

/// Characters of a path that a message shows.
const SHOWN_PATH: usize = 200;

/// One signal of the input.
pub(crate) struct Signal {
    /// Name qualified by buses: `a`, `p.x`, `q[0][1].y`.
    pub(crate) name: String,
    /// All its values, in row-major order.
    pub(crate) values: Vec<Limbs>,
}

impl Signal {
    /// The name as messages show it.
    pub(crate) fn shown(&self) -> String {
        shorten(&self.name)
    }
}

/// Reads the whole input. `expected` is the number of values that the circuit takes in all.
pub(crate) fn read(
    bytes: &[u8],
    modulus: &Limbs,
    expected: u32,
    limits: &Limits,
    cancelled: &dyn Fn() -> bool,
) -> Result<Vec<Signal>, CircomError> {
    if bytes.len() > limits.input_bytes {
        return Err(CircomError::InputTooLarge { actual: bytes.len(), limit: limits.input_bytes });
    }
    let mut reader = Reader {
        tokens: Scanner::new(bytes)?,
        modulus,
        expected,
        depth_limit: limits.input_depth,
        cancelled,
        path: Path::default(),
        depth: 0,
        count: 0,
        seen: HashSet::new(),
        signals: Vec::new(),
    };
    match reader.tokens.next() {
        Some(Token::ObjectStart) => reader.object()?,
        _ => return Err(CircomError::InputNotObject),
    }
    refuse_overlaps(&reader.signals)?;
    Ok(reader.signals)
}

/// A bus must not be given as a whole and by a field as well. The generator would take the field's value for one of the
/// values that are still missing, and compute a witness of something else.
fn refuse_overlaps(signals: &[Signal]) -> Result<(), CircomError> {
    let names: HashSet<&str> = signals.iter().map(|signal| signal.name.as_str()).collect();
    for signal in signals {
        for (end, _) in signal.name.match_indices(['.', '[']) {
            if signal.name.get(..end).is_some_and(|bus| names.contains(bus)) {
                return Err(CircomError::DuplicateSignal { signal: signal.shown() });
            }
        }
    }
    Ok(())
}

/// What an array holds, known from its first leaf on.
enum Content {
    Unknown,
    Values(Vec<Limbs>),
    Buses,
}

struct Reader<'a> {
    tokens: Scanner<'a>,
    modulus: &'a Limbs,
    expected: u32,
    depth_limit: usize,
    cancelled: &'a dyn Fn() -> bool,
    path: Path,
    depth: usize,
    count: usize,
    seen: HashSet<String>,
    signals: Vec<Signal>,
}

impl Reader<'_> {
    /// The members of an object whose brace has been read: the whole input, or a bus.
    fn object(&mut self) -> Result<(), CircomError> {
        self.enter()?;
        while let Some(Token::String(key)) = self.tokens.next() {
            let Some(key) = Scanner::decode(key) else { return Err(self.problem(ValueProblem::Escape)) };
            if key.is_empty() {
                let signal = if self.path.name.is_empty() { String::new() } else { self.path.shown() + "." };
                return Err(CircomError::UnknownSignal { signal: signal + "\"\"" });
            }
            let outer = self.path.push_name(&key);
            if self.path.name.len() > NAME {
                return Err(CircomError::UnknownSignal { signal: self.path.shown() });
            }
            if !self.seen.insert(self.path.name.clone()) {
                return Err(CircomError::DuplicateSignal { signal: self.path.shown() });
            }
            let Some(token) = self.tokens.next() else { return Ok(()) };
            match token {
                Token::ObjectStart => self.object()?,
                Token::ArrayStart => {
                    let mut content = Content::Unknown;
                    self.array(&mut content)?;
                    match content {
                        Content::Values(values) => self.signal(values),
                        Content::Unknown => self.signal(Vec::new()),
                        Content::Buses => {}
                    }
                }
                leaf => {
                    let value = self.value(leaf)?;
                    self.signal(vec![value]);
                }
            }
            self.path.name.truncate(outer);
        }
        self.depth -= 1;
        Ok(())
    }

    /// The elements of an array whose bracket has been read. Indices of an array of values are kept apart from the
    /// name: there are many, and only a message needs them.
    fn array(&mut self, content: &mut Content) -> Result<(), CircomError> {
        self.enter()?;
        self.path.indices.push(0);
        while let Some(token) = self.tokens.next() {
            match token {
                Token::ArrayEnd => break,
                Token::ArrayStart => self.array(content)?,
                Token::ObjectStart => {
                    if matches!(content, Content::Values(_)) {
                        return Err(CircomError::MixedArray { path: self.path.shown() });
                    }
                    *content = Content::Buses;
                    let (outer, indices) = self.path.index_into_name();
                    self.object()?;
                    self.path.name.truncate(outer);
                    self.path.indices = indices;
                }
                leaf => {
                    let value = self.value(leaf)?;
                    match content {
                        Content::Values(values) => values.push(value),
                        Content::Unknown => *content = Content::Values(vec![value]),
                        Content::Buses => return Err(CircomError::MixedArray { path: self.path.shown() }),
                    }
                }
            }
            if let Some(index) = self.path.indices.last_mut() {
                *index += 1;
            }
        }
        self.path.indices.pop();
        self.depth -= 1;
        Ok(())
    }

    fn value(&mut self, token: Token<'_>) -> Result<Limbs, CircomError> {
        self.count += 1;
        if self.count > self.expected as usize + SLACK {
            return Err(CircomError::TooManyValues { path: self.path.shown(), expected: self.expected });
        }
        if self.count.is_multiple_of(SLACK) && (self.cancelled)() {
            return Err(CircomError::Cancelled);
        }
        let value = match token {
            Token::Number(text) => field::parse(text, self.modulus),
            Token::String(text) => match Scanner::decode(text) {
                Some(text) => field::parse(&text, self.modulus),
                None => Err(ValueProblem::Escape),
            },
            Token::Boolean => Err(ValueProblem::Boolean),
            _ => Err(ValueProblem::Null),
        };
        value.map_err(|problem| self.problem(problem))
    }

    fn signal(&mut self, values: Vec<Limbs>) {
        self.signals.push(Signal { name: self.path.name.clone(), values });
    }

    fn enter(&mut self) -> Result<(), CircomError> {
        self.depth += 1;
        if self.depth > self.depth_limit {
            return Err(CircomError::InputTooDeep { path: self.path.shown(), limit: self.depth_limit });
        }
        Ok(())
    }

    fn problem(&self, problem: ValueProblem) -> CircomError {
        CircomError::InvalidValue { path: self.path.shown(), problem }
    }
}

/// Where the reader is.
#[derive(Default)]
struct Path {
    /// Keys and the indices that lead to buses: `q[0].x`.
    name: String,
    /// Indices below `name` in an array of values.
    indices: Vec<usize>,
}

impl Path {
    /// Appends a key; returns the length to truncate `name` to afterwards.
    fn push_name(&mut self, key: &str) -> usize {
        let outer = self.name.len();
        if outer > 0 {
            self.name.push('.');
        }
        self.name.push_str(key);
        outer
    }

    /// Makes the indices part of the name; returns what to restore afterwards.
    fn index_into_name(&mut self) -> (usize, Vec<usize>) {
        let outer = self.name.len();
        let indices = std::mem::take(&mut self.indices);
        for index in &indices {
            let _ = write!(self.name, "[{index}]");
        }
        (outer, indices)
    }

    fn shown(&self) -> String {
        if self.name.is_empty() && self.indices.is_empty() {
            return "the input".to_owned();
        }
        let mut path = self.name.clone();
        for index in &self.indices {
            let _ = write!(path, "[{index}]");
        }
        shorten(&path)
    }
}

/// A path for a message: a line of bounded length, whatever the keys are.
fn shorten(path: &str) -> String {
    let mut shown: String = path.chars().take(SHOWN_PATH).flat_map(char::escape_debug).collect();
    if path.chars().nth(SHOWN_PATH).is_some() {
        shown.push('…');
    }
    shown
}
