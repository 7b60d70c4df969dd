pragma circom 2.0.0;

include "circomlib/circuits/poseidon.circom";

// n Poseidon hashes in a row: a dense witness, as most rollup circuits have.
template Chain(n) {
    signal input seed;
    signal output out;
    component hash[n];
    for (var i = 0; i < n; i++) {
        hash[i] = Poseidon(2);
        hash[i].inputs[0] <== i == 0 ? seed : hash[i - 1].out;
        hash[i].inputs[1] <== i;
    }
    out <== hash[n - 1].out;
}
