pragma circom 2.0.0;

include "poseidon-chain.circom";

component main = Chain(250);
