//! Four limbs in assembly.

use core::arch::asm;

use super::adx::{Adx, carry_into, load_and_clear, mac, multiple};
use super::{LimbOps, Wide, add_limbs};

impl LimbOps<4> for Adx {
    type Adx = Self;
    type Portable = Self;

    #[inline(always)]
    fn mul(a: &[u64; 4], b: &[u64; 4], table: &'static [u64; 8]) -> [u64; 4] {
        mul4(a, b, table)
    }

    #[inline(always)]
    fn sqr(a: &[u64; 4], table: &'static [u64; 8]) -> [u64; 4] {
        sqr4(a, table)
    }

    #[inline(always)]
    fn add(a: &[u64; 4], b: &[u64; 4], bound: &'static [u64; 4]) -> [u64; 4] {
        add4(a, b, bound)
    }

    #[inline(always)]
    fn sub(a: &[u64; 4], b: &[u64; 4], bound: &'static [u64; 4]) -> [u64; 4] {
        sub4(a, b, bound)
    }

    #[inline(always)]
    fn wide(a: &[u64; 4], b: &[u64; 4]) -> Wide<4> {
        wide4(a, b)
    }

    #[inline(always)]
    fn redc(t: &Wide<4>, table: &'static [u64; 8]) -> [u64; 4] {
        redc4(t, table)
    }
}

/// One row of the 4-limb product: t += a * b[i], the carry into t4 (zero before).
macro_rules! mul_row4 {
    ($off:literal, $t0:literal, $t1:literal, $t2:literal, $t3:literal, $t4:literal) => {
        concat!(
            load_and_clear!($off, $t4),
            mac!("a", "0", $t0, $t1),
            mac!("a", "8", $t1, $t2),
            mac!("a", "16", $t2, $t3),
            mac!("a", "24", $t3, $t4),
            carry_into!($t4)
        )
    };
}

/// One Montgomery step on 4 limbs: t = (t + m p) / 2^64; t0 ends as zero.
macro_rules! red_row4 {
    ($t0:literal, $t1:literal, $t2:literal, $t3:literal, $t4:literal) => {
        concat!(
            multiple!($t0),
            mac!("p", "0", $t0, $t1),
            mac!("p", "8", $t1, $t2),
            mac!("p", "16", $t2, $t3),
            mac!("p", "24", $t3, $t4),
            carry_into!($t4)
        )
    };
}

/// a b / 2^256 mod p, interleaved row by row.
#[inline(always)]
fn mul4(a: &[u64; 4], b: &[u64; 4], table: &'static [u64; 8]) -> [u64; 4] {
    let (r0, r1, r2, r3): (u64, u64, u64, u64);
    // SAFETY: reads the operands and the table through pointers to arrays of these sizes; writes only registers.
    unsafe {
        asm!(
            "mov rdx, qword ptr [{b}]",
            "mulx {t1}, {t0}, qword ptr [{a}]",
            "mulx {t2}, {lo}, qword ptr [{a} + 8]",
            "add {t1}, {lo}",
            "mulx {t3}, {lo}, qword ptr [{a} + 16]",
            "adc {t2}, {lo}",
            "mulx {t4}, {lo}, qword ptr [{a} + 24]",
            "adc {t3}, {lo}",
            "adc {t4}, 0",
            red_row4!("t0", "t1", "t2", "t3", "t4"),
            mul_row4!("8", "t1", "t2", "t3", "t4", "t0"),
            red_row4!("t1", "t2", "t3", "t4", "t0"),
            mul_row4!("16", "t2", "t3", "t4", "t0", "t1"),
            red_row4!("t2", "t3", "t4", "t0", "t1"),
            mul_row4!("24", "t3", "t4", "t0", "t1", "t2"),
            red_row4!("t3", "t4", "t0", "t1", "t2"),
            a = in(reg) a.as_ptr(),
            b = in(reg) b.as_ptr(),
            p = in(reg) table.as_ptr(),
            t0 = out(reg) r1,
            t1 = out(reg) r2,
            t2 = out(reg) r3,
            t3 = out(reg) _,
            t4 = out(reg) r0,
            lo = out(reg) _,
            hi = out(reg) _,
            out("rdx") _,
            options(pure, readonly, nostack)
        );
    }
    [r0, r1, r2, r3]
}

/// One Montgomery step on the low half of a wide product, kept in 4 registers: t0 becomes the top.
macro_rules! low_row4 {
    ($t0:literal, $t1:literal, $t2:literal, $t3:literal) => {
        concat!(
            multiple!($t0),
            mac!("p", "0", $t0, $t1),
            mac!("p", "8", $t1, $t2),
            mac!("p", "16", $t2, $t3),
            mac!("p", "24", $t3, $t0),
            carry_into!($t0)
        )
    };
}

/// a^2 / 2^256 mod p, as a wide square, then the reduction.
#[inline(always)]
fn sqr4(a: &[u64; 4], table: &'static [u64; 8]) -> [u64; 4] {
    let (r0, r1, r2, r3): (u64, u64, u64, u64);
    // SAFETY: reads the operands and the table through pointers to arrays of these sizes; writes only registers.
    unsafe {
        asm!(
            "mov rdx, qword ptr [{a}]",
            "mulx {t2}, {t1}, qword ptr [{a} + 8]",
            "mulx {t3}, {lo}, qword ptr [{a} + 16]",
            "add {t2}, {lo}",
            "mulx {t4}, {lo}, qword ptr [{a} + 24]",
            "adc {t3}, {lo}",
            "adc {t4}, 0",
            "mov rdx, qword ptr [{a} + 8]",
            "xor {t5:e}, {t5:e}",
            "mulx {hi}, {lo}, qword ptr [{a} + 16]",
            "adcx {t3}, {lo}",
            "adox {t4}, {hi}",
            "mulx {hi}, {lo}, qword ptr [{a} + 24]",
            "adcx {t4}, {lo}",
            "adox {t5}, {hi}",
            "adc {t5}, 0",
            "mov rdx, qword ptr [{a} + 16]",
            "mulx {t6}, {lo}, qword ptr [{a} + 24]",
            "add {t5}, {lo}",
            "adc {t6}, 0",
            "xor {t7:e}, {t7:e}",
            "mov rdx, qword ptr [{a}]",
            "mulx {hi}, {t0}, rdx",
            "adcx {t1}, {t1}",
            "adox {t1}, {hi}",
            "mov rdx, qword ptr [{a} + 8]",
            "mulx {hi}, {lo}, rdx",
            "adcx {t2}, {t2}",
            "adox {t2}, {lo}",
            "adcx {t3}, {t3}",
            "adox {t3}, {hi}",
            "mov rdx, qword ptr [{a} + 16]",
            "mulx {hi}, {lo}, rdx",
            "adcx {t4}, {t4}",
            "adox {t4}, {lo}",
            "adcx {t5}, {t5}",
            "adox {t5}, {hi}",
            "mov rdx, qword ptr [{a} + 24]",
            "mulx {hi}, {lo}, rdx",
            "adcx {t6}, {t6}",
            "adox {t6}, {lo}",
            "adcx {t7}, {t7}",
            "adox {t7}, {hi}",
            low_row4!("t0", "t1", "t2", "t3"),
            low_row4!("t1", "t2", "t3", "t0"),
            low_row4!("t2", "t3", "t0", "t1"),
            low_row4!("t3", "t0", "t1", "t2"),
            "add {t0}, {t4}",
            "adc {t1}, {t5}",
            "adc {t2}, {t6}",
            "adc {t3}, {t7}",
            a = in(reg) a.as_ptr(),
            p = in(reg) table.as_ptr(),
            t0 = out(reg) r0,
            t1 = out(reg) r1,
            t2 = out(reg) r2,
            t3 = out(reg) r3,
            t4 = out(reg) _,
            t5 = out(reg) _,
            t6 = out(reg) _,
            t7 = out(reg) _,
            lo = out(reg) _,
            hi = out(reg) _,
            out("rdx") _,
            options(pure, readonly, nostack)
        );
    }
    [r0, r1, r2, r3]
}

/// The 8-limb product.
#[inline(always)]
fn wide4(a: &[u64; 4], b: &[u64; 4]) -> Wide<4> {
    let (mut lo, mut hi) = ([0u64; 4], [0u64; 4]);
    // SAFETY: reads the operands and the table through pointers to arrays of these sizes; writes only registers.
    unsafe {
        asm!(
            "mov rdx, qword ptr [{b}]",
            "mulx {t1}, {t0}, qword ptr [{a}]",
            "mulx {t2}, {lo}, qword ptr [{a} + 8]",
            "add {t1}, {lo}",
            "mulx {t3}, {lo}, qword ptr [{a} + 16]",
            "adc {t2}, {lo}",
            "mulx {t4}, {lo}, qword ptr [{a} + 24]",
            "adc {t3}, {lo}",
            "adc {t4}, 0",
            mul_row4!("8", "t1", "t2", "t3", "t4", "t5"),
            mul_row4!("16", "t2", "t3", "t4", "t5", "t6"),
            mul_row4!("24", "t3", "t4", "t5", "t6", "t7"),
            a = in(reg) a.as_ptr(),
            b = in(reg) b.as_ptr(),
            t0 = out(reg) lo[0],
            t1 = out(reg) lo[1],
            t2 = out(reg) lo[2],
            t3 = out(reg) lo[3],
            t4 = out(reg) hi[0],
            t5 = out(reg) hi[1],
            t6 = out(reg) hi[2],
            t7 = out(reg) hi[3],
            lo = out(reg) _,
            hi = out(reg) _,
            out("rdx") _,
            options(pure, readonly, nostack)
        );
    }
    Wide { lo, hi }
}

/// t / 2^256 mod p.
#[inline(always)]
fn redc4(t: &Wide<4>, table: &'static [u64; 8]) -> [u64; 4] {
    let (mut r0, mut r1, mut r2, mut r3) = (t.lo[0], t.lo[1], t.lo[2], t.lo[3]);
    // SAFETY: reads the operands and the table through pointers to arrays of these sizes; writes only registers.
    unsafe {
        asm!(
            low_row4!("t0", "t1", "t2", "t3"),
            low_row4!("t1", "t2", "t3", "t0"),
            low_row4!("t2", "t3", "t0", "t1"),
            low_row4!("t3", "t0", "t1", "t2"),
            "add {t0}, {h4}",
            "adc {t1}, {h5}",
            "adc {t2}, {h6}",
            "adc {t3}, {h7}",
            p = in(reg) table.as_ptr(),
            t0 = inout(reg) r0,
            t1 = inout(reg) r1,
            t2 = inout(reg) r2,
            t3 = inout(reg) r3,
            h4 = in(reg) t.hi[0],
            h5 = in(reg) t.hi[1],
            h6 = in(reg) t.hi[2],
            h7 = in(reg) t.hi[3],
            lo = out(reg) _,
            hi = out(reg) _,
            out("rdx") _,
            options(pure, readonly, nostack)
        );
    }
    [r0, r1, r2, r3]
}

/// a + b, minus the bound when that is not negative.
#[inline(always)]
fn add4(a: &[u64; 4], b: &[u64; 4], bound: &'static [u64; 4]) -> [u64; 4] {
    let s = add_limbs(a, b);
    let [mut r0, mut r1, mut r2, mut r3] = s;
    // SAFETY: reads the bound through a pointer to four limbs; writes only registers.
    unsafe {
        asm!(
            "sub {r0}, qword ptr [{p}]",
            "sbb {r1}, qword ptr [{p} + 8]",
            "sbb {r2}, qword ptr [{p} + 16]",
            "sbb {r3}, qword ptr [{p} + 24]",
            "cmovb {r0}, {t0}",
            "cmovb {r1}, {t1}",
            "cmovb {r2}, {t2}",
            "cmovb {r3}, {t3}",
            p = in(reg) bound.as_ptr(),
            r0 = inout(reg) r0,
            r1 = inout(reg) r1,
            r2 = inout(reg) r2,
            r3 = inout(reg) r3,
            t0 = in(reg) s[0],
            t1 = in(reg) s[1],
            t2 = in(reg) s[2],
            t3 = in(reg) s[3],
            options(pure, readonly, nostack)
        );
    }
    [r0, r1, r2, r3]
}

/// a - b, plus the bound when negative.
#[inline(always)]
fn sub4(a: &[u64; 4], b: &[u64; 4], bound: &'static [u64; 4]) -> [u64; 4] {
    let [mut r0, mut r1, mut r2, mut r3] = *a;
    // SAFETY: reads b and the bound through pointers to four limbs each; writes only registers.
    unsafe {
        asm!(
            "sub {r0}, qword ptr [{b}]",
            "sbb {r1}, qword ptr [{b} + 8]",
            "sbb {r2}, qword ptr [{b} + 16]",
            "sbb {r3}, qword ptr [{b} + 24]",
            "sbb {m}, {m}",
            "mov {t0}, qword ptr [{p}]",
            "and {t0}, {m}",
            "mov {t1}, qword ptr [{p} + 8]",
            "and {t1}, {m}",
            "mov {t2}, qword ptr [{p} + 16]",
            "and {t2}, {m}",
            "and {m}, qword ptr [{p} + 24]",
            "add {r0}, {t0}",
            "adc {r1}, {t1}",
            "adc {r2}, {t2}",
            "adc {r3}, {m}",
            b = in(reg) b.as_ptr(),
            p = in(reg) bound.as_ptr(),
            m = out(reg) _,
            r0 = inout(reg) r0,
            r1 = inout(reg) r1,
            r2 = inout(reg) r2,
            r3 = inout(reg) r3,
            t0 = out(reg) _,
            t1 = out(reg) _,
            t2 = out(reg) _,
            options(pure, readonly, nostack)
        );
    }
    [r0, r1, r2, r3]
}
