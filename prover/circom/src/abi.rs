//! The functions that circom 2's generators export.

use wasmtime::{Instance, Store, TypedFunc, WasmParams, WasmResults};

use crate::error::CircomError;
use crate::field::Limbs;
use crate::host::Host;

/// 32-bit words of a value in the shared buffer, for both supported primes.
pub(crate) const WORDS: i32 = 8;

/// The exports of one instance.
pub(crate) struct Exports {
    pub(crate) version: TypedFunc<(), i32>,
    pub(crate) field_words: TypedFunc<(), i32>,
    pub(crate) raw_prime: TypedFunc<(), ()>,
    pub(crate) witness_size: TypedFunc<(), i32>,
    pub(crate) input_size: TypedFunc<(), i32>,
    pub(crate) signal_size: TypedFunc<(i32, i32), i32>,
    pub(crate) init: TypedFunc<i32, ()>,
    write: TypedFunc<(i32, i32), ()>,
    set_signal: TypedFunc<(i32, i32, i32), ()>,
    witness: TypedFunc<i32, ()>,
    read: TypedFunc<i32, i32>,
}

impl Exports {
    /// Looks all of them up.
    pub(crate) fn new(instance: &Instance, store: &mut Store<Host>) -> Result<Self, CircomError> {
        Ok(Self {
            version: lookup(instance, store, "getVersion")?,
            field_words: lookup(instance, store, "getFieldNumLen32")?,
            raw_prime: lookup(instance, store, "getRawPrime")?,
            witness_size: lookup(instance, store, "getWitnessSize")?,
            input_size: lookup(instance, store, "getInputSize")?,
            signal_size: lookup(instance, store, "getInputSignalSize")?,
            init: lookup(instance, store, "init")?,
            write: lookup(instance, store, "writeSharedRWMemory")?,
            set_signal: lookup(instance, store, "setInputSignal")?,
            witness: lookup(instance, store, "getWitness")?,
            read: lookup(instance, store, "readSharedRWMemory")?,
        })
    }

    /// The shared buffer as little-endian words.
    pub(crate) fn shared(&self, store: &mut Store<Host>, words: i32) -> wasmtime::Result<Vec<u32>> {
        (0..words).map(|index| Ok(self.read.call(&mut *store, index)?.cast_unsigned())).collect()
    }

    /// Sets value `index` of the signal. The last one of the circuit's inputs runs the circuit.
    pub(crate) fn set(
        &self,
        store: &mut Store<Host>,
        signal: SignalHash,
        index: i32,
        value: &Limbs,
    ) -> wasmtime::Result<()> {
        for (position, word) in (0..WORDS).zip(value.iter().flat_map(|limb| [low(*limb), low(*limb >> 32)])) {
            self.write.call(&mut *store, (position, word))?;
        }
        self.set_signal.call(store, (signal.high, signal.low, index))
    }

    /// Value `index` of the witness, as the generator states it.
    pub(crate) fn value(&self, store: &mut Store<Host>, index: u32) -> wasmtime::Result<Limbs> {
        self.witness.call(&mut *store, index.cast_signed())?;
        let mut value = [0; 4];
        for (limb, position) in value.iter_mut().zip((0..WORDS).step_by(2)) {
            let low = self.read.call(&mut *store, position)?.cast_unsigned();
            let high = self.read.call(&mut *store, position + 1)?.cast_unsigned();
            *limb = u64::from(low) | u64::from(high) << 32;
        }
        Ok(value)
    }
}

/// How a generator addresses an input signal: FNV-1a, 64 bits, of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignalHash {
    /// Upper half.
    pub(crate) high: i32,
    /// Lower half.
    pub(crate) low: i32,
}

impl SignalHash {
    /// The hash of a signal's qualified name.
    pub(crate) fn of(name: &str) -> Self {
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self { high: low(hash >> 32), low: low(hash) }
    }
}

fn lookup<P: WasmParams, R: WasmResults>(
    instance: &Instance,
    store: &mut Store<Host>,
    name: &'static str,
) -> Result<TypedFunc<P, R>, CircomError> {
    instance.get_typed_func(store, name).map_err(|_| CircomError::MissingExport { name })
}

/// The lower 32 bits, as WebAssembly passes them.
#[allow(clippy::cast_possible_truncation)]
fn low(value: u64) -> i32 {
    (value as u32).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published vectors of FNV-1a 64.
    #[test]
    fn hashes_as_published() {
        for (text, hash) in
            [("", 0xcbf2_9ce4_8422_2325_u64), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(SignalHash::of(text), SignalHash { high: low(hash >> 32), low: low(hash) });
        }
    }
}
