pragma circom 2.0.0;

include "circomlib/circuits/sha256/sha256.circom";

// SHA-256 over n blocks of 64 bytes less padding: a witness of bits.
template Hash(n) {
    signal input bits[n * 512 - 65];
    signal output out[256];
    component sha = Sha256(n * 512 - 65);
    for (var i = 0; i < n * 512 - 65; i++) {
        sha.in[i] <== bits[i];
    }
    for (var i = 0; i < 256; i++) {
        out[i] <== sha.out[i];
    }
}

component main = Hash(4);
