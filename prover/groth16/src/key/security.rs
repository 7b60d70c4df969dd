//! Who could forge proofs with a key.

use super::KeySecurity;

/// The security of a key: a dev mark counts most, then whether phase 2 has ever been contributed to. Without a
/// contribution delta is gamma, so everybody knows their quotient (1) and can forge.
pub fn classify(dev_setup: bool, delta_is_gamma: bool) -> KeySecurity {
    if dev_setup {
        KeySecurity::DevSetup
    } else if delta_is_gamma {
        KeySecurity::NoContribution
    } else {
        KeySecurity::Contributed
    }
}

impl KeySecurity {
    /// Whether `serve` and pools refuse the key unless insecure keys are allowed.
    pub fn is_insecure(self) -> bool {
        self != Self::Contributed
    }
}

impl std::fmt::Display for KeySecurity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Contributed => "contributed",
            Self::NoContribution => "INSECURE: no phase-2 contribution, anyone can forge proofs",
            Self::DevSetup => "INSECURE: made by `prover dev setup`, whoever made it can forge proofs",
        })
    }
}
