//! The rows that the assembly of both widths is made of: `mulx` feeding the two carry chains of `adcx` and `adox`.
//! Operands are read through pointers, the running sum stays in registers.

/// x86-64 with BMI2 and ADX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adx;

/// t0 += low half, t1 += high half of rdx * src[off], on the two carry chains.
macro_rules! mac {
    ($src:literal, $off:literal, $t0:literal, $t1:literal) => {
        concat!(
            "mulx {hi}, {lo}, qword ptr [{",
            $src,
            "} + ",
            $off,
            "]\n",
            "adcx {",
            $t0,
            "}, {lo}\n",
            "adox {",
            $t1,
            "}, {hi}\n"
        )
    };
}

/// rdx = b[off / 8]; clears a register and both carries.
macro_rules! load_and_clear {
    ($off:literal, $t:literal) => {
        concat!("mov rdx, qword ptr [{b} + ", $off, "]\nxor {", $t, ":e}, {", $t, ":e}\n")
    };
}

/// rdx = the multiple of p that clears t0; both carries cleared.
macro_rules! multiple {
    ($t0:literal) => {
        concat!("mov rdx, {", $t0, "}\nimul rdx, qword ptr [{p} + 56]\nxor {lo:e}, {lo:e}\n")
    };
}

macro_rules! carry_into {
    ($t:literal) => {
        concat!("adc {", $t, "}, 0\n")
    };
}

pub(super) use {carry_into, load_and_clear, mac, multiple};
