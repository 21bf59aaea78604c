// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"errors"
	"math/big"
)

// MaxPath is the maximum number of nodes of a proof of transit.
const MaxPath = 64

// Profile is one node's part of a proof of transit.
type Profile struct {
	Prime    uint64 `json:"prime"`
	Share    uint64 `json:"share"`    // of the secret polynomial and the public one, without its constant term
	Lagrange uint64 `json:"lagrange"` // coefficient
	Secret   uint64 `json:"secret,omitempty"`
	Verifier bool   `json:"verifier,omitempty"`
	MaskIn   uint64 `json:"mask_in,omitempty"`
	MaskOut  uint64 `json:"mask_out,omitempty"`
}

// Profiles returns the parts of a path with a number of nodes, in path order; the last node
// verifies. Random must be a cryptographic source.
//
// A secret polynomial and a public one, with a packet's id as its constant term, are shared by
// Shamir's scheme over a prime of 61 bits. Each node has their values at a point of its own, and
// the Lagrange coefficient of that point for the value at 0. Neighbours share a mask, so the order
// of the nodes is proven too.
func Profiles(nodes int, random func() uint64) ([]Profile, error) {
	if nodes < 2 || nodes > MaxPath {
		return nil, errors.New("a proof of transit takes 2 to 64 nodes")
	}
	prime := new(big.Int)
	for !prime.ProbablyPrime(40) {
		prime.SetUint64(random()>>3 | 1<<60 | 1)
	}
	below := func() *big.Int { return new(big.Int).Mod(new(big.Int).SetUint64(random()), prime) }
	secret, public := []*big.Int{below()}, []*big.Int{new(big.Int)}
	for range nodes - 1 {
		secret, public = append(secret, below()), append(public, below())
	}
	places, taken := make([]*big.Int, 0, nodes), map[uint64]bool{0: true}
	for len(places) < nodes {
		if x := below(); !taken[x.Uint64()] {
			taken[x.Uint64()] = true
			places = append(places, x)
		}
	}
	all := make([]Profile, nodes)
	for i, x := range places {
		share := new(big.Int).Add(valueAt(secret, x, prime), valueAt(public, x, prime))
		all[i] = Profile{Prime: prime.Uint64(), Share: share.Mod(share, prime).Uint64(), Lagrange: coefficient(places, i, prime).Uint64()}
		if i > 0 {
			all[i-1].MaskOut = random() >> 3
			all[i].MaskIn = all[i-1].MaskOut
		}
	}
	all[nodes-1].Verifier, all[nodes-1].Secret = true, secret[0].Uint64()
	return all, nil
}

// valueAt evaluates a polynomial by Horner's rule.
func valueAt(coefficients []*big.Int, x, prime *big.Int) *big.Int {
	value := new(big.Int)
	for i := range coefficients {
		value.Mul(value, x)
		value.Add(value, coefficients[len(coefficients)-1-i])
		value.Mod(value, prime)
	}
	return value
}

// coefficient returns the weight of the value at a place for the value at 0 (Lagrange).
func coefficient(places []*big.Int, i int, prime *big.Int) *big.Int {
	c := big.NewInt(1)
	for j, x := range places {
		if j == i {
			continue
		}
		difference := new(big.Int).Sub(x, places[i])
		difference.ModInverse(difference.Mod(difference, prime), prime)
		c.Mul(c, x).Mul(c, difference).Mod(c, prime)
	}
	return c
}
