// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"math/big"
	"testing"

	"weir/kernel/testutil"
)

// TestPositionsAreExact compares due times with exact arithmetic: the mean gap has no error beyond
// a nanosecond in the whole run.
func TestPositionsAreExact(t *testing.T) {
	g := &Generator{Streams: []Stream{{Size: 64, Gap: 20}}}
	p := compile(g, 10e9, 1000)
	buffer := make([]byte, 64)
	const n = 1_000_000
	for i := range uint64(n) {
		want := 1000 + i*84*8e9/10e9
		if got := p.due(); got != want {
			t.Fatalf("frame %d is due at %d, want %d", i, got, want)
		}
		p.fill(buffer, 0)
	}
}

func TestDueNeverWraps(t *testing.T) {
	p := compile(&Generator{Streams: []Stream{{Size: 64, Gap: 1 << 63}}}, 1e9, 1)
	buffer := make([]byte, 64)
	for range 4 {
		before := p.due()
		p.fill(buffer, 0)
		if p.due() < before {
			t.Fatalf("due went from %d to %d", before, p.due())
		}
	}
	if p.due() != never {
		t.Error(p.due())
	}
}

// TestModifiersAgainstArithmetic compares increments and decrements of masked fields with big
// integers.
func TestModifiersAgainstArithmetic(t *testing.T) {
	r := testutil.Rand(t)
	for range 2000 {
		mask, octets := make([]byte, 1+r.IntN(10)), make([]byte, 12)
		for i := range mask {
			mask[i] = []byte{0, 0xff, byte(r.Uint32())}[r.IntN(3)]
		}
		for i := range octets {
			octets[i] = byte(r.Uint32())
		}
		before := bytes.Clone(octets)
		action := []Action{Increment, Decrement}[r.IntN(2)]
		c := counter{Modifier: &Modifier{Action: action, Offset: 1, Mask: mask}}
		c.step(octets)
		delta := map[Action]int64{Increment: 1, Decrement: -1}[action]
		want := shifted(before[1:1+len(mask)], mask, delta)
		if got := shifted(octets[1:1+len(mask)], mask, 0); got.Cmp(want) != 0 {
			t.Fatalf("mask % x: % x became % x", mask, before, octets)
		}
		for i := range mask {
			if (octets[1+i]^before[1+i])&^mask[i] != 0 {
				t.Fatalf("mask % x: % x became % x", mask, before, octets)
			}
		}
	}
}

// shifted is the number in the masked bits plus delta, modulo their number of values.
func shifted(octets, mask []byte, delta int64) *big.Int {
	value, bits := new(big.Int), uint(0)
	for i := range octets {
		for bit := 7; bit >= 0; bit-- {
			if mask[i]>>bit&1 == 1 {
				value.Lsh(value, 1)
				value.Or(value, big.NewInt(int64(octets[i]>>bit&1)))
				bits++
			}
		}
	}
	value.Add(value, big.NewInt(delta))
	return value.Mod(value, new(big.Int).Lsh(big.NewInt(1), bits))
}
