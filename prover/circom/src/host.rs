//! What a generator finds around it: circom's four imports, its limits, and nothing else of the machine.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use wasmtime::{Caller, Linker, ResourceLimiter};

use crate::error::{CircomError, CircuitLine};
use crate::field;
use crate::limits::Limits;
use crate::watch::{Event, Stop};

/// Characters of a message; circom's own buffer holds 256.
const MESSAGE: usize = 1024;

/// Lines of source that a failed assertion is followed up through.
const LINES: usize = 64;

/// Bytes of a line of `log()`; longer ones are cut.
const LOG_LINE: usize = 64 << 10;

/// The state of one instance on the host's side.
pub(crate) struct Host {
    memory_limit: usize,
    table_limit: usize,
    /// The largest memory that the instance has had.
    pub(crate) memory: usize,
    /// The limit that was hit, if any: WebAssembly goes on after a refused growth.
    pub(crate) denied: Option<CircomError>,
    /// Set from outside to end the instance.
    pub(crate) stop: Arc<Stop>,
    /// Where the circuit failed, as far as it has told.
    pub(crate) lines: Vec<CircuitLine>,
    log: Option<Log>,
}

impl Host {
    /// A host that passes `log()` on to `log`, or drops it.
    pub(crate) fn new(limits: &Limits, stop: Arc<Stop>, log: Option<Log>) -> Self {
        Self {
            memory_limit: limits.memory_bytes,
            table_limit: limits.table_elements,
            memory: 0,
            denied: None,
            stop,
            lines: Vec::new(),
            log,
        }
    }
}

/// Assembles lines of `log()`.
pub(crate) struct Log {
    events: SyncSender<Event>,
    line: String,
    /// Whether the generator marks the ends of lines; otherwise each value is a line.
    has_lines: bool,
}

impl Log {
    /// Lines go to `events`.
    pub(crate) fn new(events: SyncSender<Event>, has_lines: bool) -> Self {
        Self { events, line: String::new(), has_lines }
    }

    fn item(&mut self, text: &str) {
        if text == "\n" {
            return self.flush();
        }
        if self.line.len() + text.len() < LOG_LINE {
            if !self.line.is_empty() {
                self.line.push(' ');
            }
            self.line.push_str(text);
        }
        if !self.has_lines {
            self.flush();
        }
    }

    fn flush(&mut self) {
        // Nobody listens any more: the generation is being abandoned.
        let _ = self.events.send(Event::Log(std::mem::take(&mut self.line)));
    }
}

/// What `exceptionHandler` was called with; ends the instance's current call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("exception {0}")]
pub(crate) struct Exception(pub(crate) i32);

/// Defines the imports.
pub(crate) fn link(linker: &mut Linker<Host>) -> wasmtime::Result<()> {
    linker.func_wrap("runtime", "exceptionHandler", |code: i32| -> wasmtime::Result<()> {
        Err(wasmtime::Error::new(Exception(code)))
    })?;
    linker.func_wrap("runtime", "printErrorMessage", |mut caller: Caller<'_, Host>| -> wasmtime::Result<()> {
        let message = message(&mut caller)?;
        let lines = &mut caller.data_mut().lines;
        if lines.len() < LINES {
            lines.extend(circuit_line(&message));
        }
        Ok(())
    })?;
    linker.func_wrap("runtime", "writeBufferMessage", |mut caller: Caller<'_, Host>| -> wasmtime::Result<()> {
        if caller.data().log.is_some() {
            let message = message(&mut caller)?;
            if let Some(log) = &mut caller.data_mut().log {
                log.item(&message);
            }
        }
        Ok(())
    })?;
    linker.func_wrap("runtime", "showSharedRWMemory", |mut caller: Caller<'_, Host>| -> wasmtime::Result<()> {
        if caller.data().log.is_some() {
            let value = shared_value(&mut caller)?;
            if let Some(log) = &mut caller.data_mut().log {
                log.item(&value);
            }
        }
        Ok(())
    })?;
    Ok(())
}

impl ResourceLimiter for Host {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let allowed = desired <= self.memory_limit;
        if allowed {
            self.memory = self.memory.max(desired);
        } else {
            self.denied = Some(CircomError::MemoryLimit { limit: self.memory_limit });
        }
        Ok(allowed)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let allowed = desired <= self.table_limit;
        if !allowed {
            self.denied = Some(CircomError::TableLimit { limit: self.table_limit });
        }
        Ok(allowed)
    }

    fn instances(&self) -> usize {
        1
    }

    fn memories(&self) -> usize {
        1
    }
}

/// Takes the message that the generator has ready, character by character up to a zero.
fn message(caller: &mut Caller<'_, Host>) -> wasmtime::Result<String> {
    let mut message = String::new();
    let Some(function) = caller.get_export("getMessageChar").and_then(wasmtime::Extern::into_func) else {
        return Ok(message);
    };
    let next = function.typed::<(), i32>(&mut *caller)?;
    for _ in 0..MESSAGE {
        match next.call(&mut *caller, ())? {
            0 => break,
            code => message.push(u32::try_from(code).ok().and_then(char::from_u32).unwrap_or('\u{fffd}')),
        }
    }
    Ok(message)
}

/// The value in the shared buffer, in decimal.
fn shared_value(caller: &mut Caller<'_, Host>) -> wasmtime::Result<String> {
    let mut function = |name| caller.get_export(name).and_then(wasmtime::Extern::into_func);
    let (Some(length), Some(read)) = (function("getFieldNumLen32"), function("readSharedRWMemory")) else {
        return Ok(String::new());
    };
    let length = length.typed::<(), i32>(&mut *caller)?.call(&mut *caller, ())?;
    let read = read.typed::<i32, i32>(&mut *caller)?;
    let words = (0..length.clamp(0, crate::abi::WORDS))
        .map(|index| Ok(read.call(&mut *caller, index)?.cast_unsigned()))
        .collect::<wasmtime::Result<Vec<u32>>>()?;
    Ok(field::decimal(&words))
}

/// circom's own text, and only that: anything else might hold values of the input.
fn circuit_line(message: &str) -> Option<CircuitLine> {
    let (template, line) = message.trim().strip_prefix("Error in template ")?.split_once(" line: ")?;
    let is_name = !template.is_empty()
        && template.len() <= 256
        && template.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'));
    is_name.then_some(CircuitLine { template: template.to_owned(), line: line.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_circoms_text_only() {
        let line = CircuitLine { template: "Num2Bits_3".to_owned(), line: 38 };
        assert_eq!(circuit_line("Error in template Num2Bits_3 line: 38"), Some(line.clone()));
        assert_eq!(circuit_line("Error in template Num2Bits_3 line: 38\n"), Some(line));
        for other in [
            "",
            "secret is 42",
            "Error in template a b line: 3",
            "Error in template T line: x",
            "Error in template  line: 1",
            "Error in template T line: 1 and 42",
        ] {
            assert_eq!(circuit_line(other), None, "{other}");
        }
    }
}
