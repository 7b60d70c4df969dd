//! A look at a module before it is compiled: refuses what circom did not make, and measures what it will take.

use wasmparser::{ExternalKind, FuncType, Parser, Payload, TypeRef, ValType};

use crate::error::CircomError;
use crate::limits::Limits;

/// Bytes of a WebAssembly page.
const PAGE: u64 = 65_536;

/// The four functions that circom's generators import, all of module `runtime`.
pub(crate) const IMPORTS: [&str; 4] =
    ["exceptionHandler", "printErrorMessage", "writeBufferMessage", "showSharedRWMemory"];

/// Exports of circom 2 that are called, with their numbers of `i32` parameters and results.
const EXPORTS: [(&str, usize, usize); 11] = [
    ("getVersion", 0, 1),
    ("getFieldNumLen32", 0, 1),
    ("getRawPrime", 0, 0),
    ("getWitnessSize", 0, 1),
    ("getInputSize", 0, 1),
    ("getInputSignalSize", 2, 1),
    ("init", 1, 0),
    ("writeSharedRWMemory", 2, 0),
    ("setInputSignal", 3, 0),
    ("getWitness", 1, 0),
    ("readSharedRWMemory", 1, 1),
];

/// What circom 1's generators export.
const CIRCOM1_EXPORTS: [&str; 3] = ["getFrLen", "getPRawPrime", "getNVars"];

/// What circom 1's generators import besides `env.memory`, all of module `runtime`.
const CIRCOM1_IMPORTS: [&str; 7] =
    ["error", "log", "logGetSignal", "logSetSignal", "logStartComponent", "logFinishComponent", "printDebug"];

/// What is known of a module from its sections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes of linear memory at the start.
    pub(crate) initial_memory: u64,
    /// Bytes of data segments.
    pub(crate) data: u64,
    /// Whether `log()` ends its lines itself (circom 2.0.7 and later).
    pub(crate) log_has_lines: bool,
}

/// Checks sizes, imports and exports.
pub(crate) fn inspect(wasm: &[u8], limits: &Limits) -> Result<Layout, CircomError> {
    if wasm.len() > limits.module_bytes {
        return Err(CircomError::ModuleTooLarge { actual: wasm.len(), limit: limits.module_bytes });
    }
    if !wasm.starts_with(b"\0asm") {
        return Err(CircomError::NotWasm);
    }
    let sections = Sections::read(wasm, limits)?;
    if sections.circom1() {
        return Err(CircomError::Circom1);
    }
    if let Some((module, name)) = sections.imports.iter().find(|(module, name)| !is_circoms(module, name)) {
        return Err(CircomError::ForeignImport { module: clip(module), name: clip(name) });
    }
    for (name, parameters, results) in EXPORTS {
        let is_there = sections.exported_function(name).is_some_and(|function| {
            let all_i32 = |types: &[ValType], count| types.len() == count && types.iter().all(|ty| *ty == ValType::I32);
            all_i32(function.params(), parameters) && all_i32(function.results(), results)
        });
        if !is_there {
            return Err(CircomError::MissingExport { name });
        }
    }
    Ok(Layout {
        initial_memory: sections.memory_pages.saturating_mul(PAGE),
        data: sections.data,
        log_has_lines: sections.imports.iter().any(|(_, name)| *name == "writeBufferMessage"),
    })
}

/// What of a module's sections matters here.
#[derive(Default)]
struct Sections<'a> {
    types: Vec<Option<FuncType>>,
    imports: Vec<(&'a str, &'a str)>,
    /// Type indices, imported functions first.
    functions: Vec<u32>,
    exports: Vec<(&'a str, Option<u32>)>,
    memory_pages: u64,
    data: u64,
}

impl<'a> Sections<'a> {
    fn read(wasm: &'a [u8], limits: &Limits) -> Result<Self, CircomError> {
        let mut sections = Self::default();
        for payload in Parser::new(0).parse_all(wasm) {
            sections.add(payload.map_err(invalid)?, limits)?;
        }
        Ok(sections)
    }

    fn add(&mut self, payload: Payload<'a>, limits: &Limits) -> Result<(), CircomError> {
        match payload {
            Payload::Version { encoding: wasmparser::Encoding::Component, .. } => {
                return Err(CircomError::InvalidModule { message: "it is a component, not a module".to_owned() });
            }
            Payload::TypeSection(types) => {
                for group in types {
                    for ty in group.map_err(invalid)?.into_types() {
                        self.types.push(match ty.composite_type.inner {
                            wasmparser::CompositeInnerType::Func(function) => Some(function),
                            _ => None,
                        });
                    }
                }
            }
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let import = import.map_err(invalid)?;
                    self.imports.push((import.module, import.name));
                    if let TypeRef::Func(ty) = import.ty {
                        self.functions.push(ty);
                    } else if is_circoms(import.module, import.name) {
                        return Err(CircomError::ForeignImport {
                            module: import.module.to_owned(),
                            name: import.name.to_owned(),
                        });
                    }
                }
            }
            Payload::FunctionSection(functions) => {
                for ty in functions {
                    self.functions.push(ty.map_err(invalid)?);
                }
            }
            Payload::MemorySection(memories) => {
                for memory in memories {
                    self.memory_pages = self.memory_pages.saturating_add(memory.map_err(invalid)?.initial);
                }
                if self.memory_pages.saturating_mul(PAGE) > limits.memory_bytes as u64 {
                    return Err(CircomError::MemoryLimit { limit: limits.memory_bytes });
                }
            }
            Payload::TableSection(tables) => {
                for table in tables {
                    if table.map_err(invalid)?.ty.initial > limits.table_elements as u64 {
                        return Err(CircomError::TableLimit { limit: limits.table_elements });
                    }
                }
            }
            Payload::ExportSection(exports) => {
                for export in exports {
                    let export = export.map_err(invalid)?;
                    let function = (export.kind == ExternalKind::Func).then_some(export.index);
                    self.exports.push((export.name, function));
                }
            }
            Payload::CodeSectionEntry(body) => {
                let actual = body.range().len();
                if actual > limits.function_bytes {
                    return Err(CircomError::FunctionTooLarge { actual, limit: limits.function_bytes });
                }
            }
            Payload::DataSection(segments) => self.data += segments.range().len() as u64,
            _ => {}
        }
        Ok(())
    }

    fn circom1(&self) -> bool {
        self.exports.iter().any(|(name, _)| CIRCOM1_EXPORTS.contains(name))
            || self.imports.contains(&("env", "memory"))
            || self.imports.iter().any(|(module, name)| *module == "runtime" && CIRCOM1_IMPORTS.contains(name))
    }

    fn exported_function(&self, name: &str) -> Option<&FuncType> {
        let (_, function) = self.exports.iter().find(|(export, _)| *export == name)?;
        let ty = self.functions.get(usize::try_from((*function)?).ok()?)?;
        self.types.get(usize::try_from(*ty).ok()?)?.as_ref()
    }
}

fn is_circoms(module: &str, name: &str) -> bool {
    module == "runtime" && IMPORTS.contains(&name)
}

fn invalid(error: wasmparser::BinaryReaderError) -> CircomError {
    CircomError::InvalidModule { message: error.to_string() }
}

/// A name for a message: one line of bounded length.
fn clip(name: &str) -> String {
    name.chars().take(64).flat_map(char::escape_debug).collect()
}
